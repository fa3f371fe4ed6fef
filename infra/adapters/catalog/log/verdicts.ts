import type { Verdict } from '@tributary/core';

/**
 * What the fold decided while someone wanted to know. The fold often reads a fact before its append has answered with
 * the offset, so decisions are kept from before the append on, and forgotten when the last proposer has left.
 */
export class Verdicts {
  #proposers = 0;
  readonly #byOffset = new Map<number, Verdict>();

  enter(): void {
    this.#proposers++;
  }

  leave(): void {
    this.#proposers--;
    if (this.#proposers === 0) this.#byOffset.clear();
  }

  note(offset: number, verdict: Verdict): void {
    if (this.#proposers > 0) this.#byOffset.set(offset, verdict);
  }

  of(offset: number): Verdict | undefined {
    return this.#byOffset.get(offset);
  }
}
