import type { Pending } from './document-forms.ts';

/** Which changes of one publisher are published. Each carries a number; a document keeps that of its last one. */
export class ChangeLedger {
  readonly id: string;
  #next = 1;
  readonly #open = new Set<number>();
  #abandoned = false;

  constructor(id: string) {
    this.id = id;
  }

  /** Numbers a change that is about to be committed. */
  begin(): Pending {
    const n = this.#next++;
    this.#open.add(n);
    return { by: this.id, n };
  }

  /** The change was published, or never committed. */
  end(n: number): void {
    this.#open.delete(n);
  }

  /** Nothing new is numbered: one of the changes may be committed unseen, or nobody waits for them any more. */
  abandon(): void {
    this.#abandoned = true;
  }

  get isAbandoned(): boolean {
    return this.#abandoned;
  }

  get hasOpen(): boolean {
    return this.#open.size > 0;
  }

  isOpen(n: number): boolean {
    return this.#open.has(n);
  }

  /** The number up to which everything is published. */
  get published(): number {
    // Numbers are added in their order, so the first one is the lowest.
    for (const lowest of this.#open) return lowest - 1;
    return this.#next - 1;
  }
}
