import type { SandboxResult } from '@tributary/core';

/** Events in the first call of a program: nothing is known of what it makes of them. */
const FIRST_EVENTS = 4;
/** Characters of output a call is to come to... */
const CALL_CHARS = 4 * 1024 * 1024;
/** ...and may come to when each of its events makes as much as any did before. */
const WORST_CALL_CHARS = 32 * 1024 * 1024;

/**
 * How many events the next call of one program may take. A call is bounded by its input, while an event may become
 * a hundred of full size, so the size follows what came of the calls before: it doubles at most.
 */
export class CallSize {
  #events = FIRST_EVENTS;
  /** The most any event came to, characters. */
  #most = 1;

  get events(): number {
    return this.#events;
  }

  /** Notes what a call came to. */
  note(results: readonly SandboxResult[]): void {
    if (results.length === 0) return;
    let chars = 1;
    for (const result of results) {
      const made = charsOf(result);
      chars += made;
      this.#most = Math.max(this.#most, made);
    }
    const usual = Math.floor((CALL_CHARS * results.length) / chars);
    const worst = Math.floor(WORST_CALL_CHARS / this.#most);
    const grown = Math.max(this.#events, results.length * 2);
    this.#events = Math.max(1, Math.min(grown, usual, worst));
  }
}

export function charsOf(result: SandboxResult): number {
  return result.ok ? result.outputs.reduce((chars, output) => chars + output.length, 0) : 0;
}
