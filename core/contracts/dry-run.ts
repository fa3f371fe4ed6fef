import type { CanonicalEvent } from '../event/event.ts';
import type { ContractVerdict } from './contract.ts';

type Recorded = ContractVerdict['breaches'][number];

/** Breaches of one kind at one place, in all events together. */
export interface DryRunBreach extends Pick<Recorded, 'kind' | 'action' | 'message'> {
  /** As a violation has it; `*` stands for the places in a list. */
  readonly path: string;
  /** How many events had it. */
  readonly events: number;
}

/** An event that would not have passed untouched. */
export interface DryRunExample {
  readonly event: CanonicalEvent;
  readonly verdict: ContractVerdict;
}

export interface DryRunResult {
  readonly outcomes: Readonly<Record<ContractVerdict['outcome'], number>>;
  /** Those of most events first. */
  readonly breaches: readonly DryRunBreach[];
  /** True where there were more kinds and places than are told apart. */
  readonly isCut: boolean;
  readonly examples: readonly DryRunExample[];
}

/** Kinds and places told apart, and events kept as examples. */
export const MAX_DRY_RUN_BREACHES = 200;
export const MAX_DRY_RUN_EXAMPLES = 10;

/**
 * What a contract would have said of events, shown one after the other. Nothing of it is recorded.
 */
export class ContractDryRun {
  readonly #outcomes = { accepted: 0, warned: 0, omitted: 0, rejected: 0 };
  readonly #breaches = new Map<string, DryRunBreach>();
  readonly #examples: DryRunExample[] = [];
  #isCut = false;

  add(event: CanonicalEvent, verdict: ContractVerdict): void {
    this.#outcomes[verdict.outcome]++;
    if (verdict.breaches.length === 0) return;
    if (this.#examples.length < MAX_DRY_RUN_EXAMPLES) this.#examples.push({ event, verdict });
    const counted = new Set<string>();
    for (const breach of verdict.breaches) this.#count(breach, counted);
  }

  get result(): DryRunResult {
    return {
      outcomes: { ...this.#outcomes },
      breaches: [...this.#breaches.values()].sort(
        (a, b) => b.events - a.events || (a.path < b.path ? -1 : 1),
      ),
      isCut: this.#isCut,
      examples: [...this.#examples],
    };
  }

  /** Once an event, however many items of a list have it. */
  #count({ kind, path, message, action }: Recorded, counted: Set<string>): void {
    const place = path.replaceAll(/\/\d+(?=\/|$)/g, '/*');
    const id = `${kind} ${action} ${place}`;
    if (counted.has(id)) return;
    counted.add(id);
    const known = this.#breaches.get(id);
    if (known === undefined && this.#breaches.size >= MAX_DRY_RUN_BREACHES) this.#isCut = true;
    else this.#breaches.set(id, { kind, path: place, message, action, events: (known?.events ?? 0) + 1 });
  }
}
