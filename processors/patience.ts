import type { Clock } from '@tributary/core';
import Denque from 'denque';

/** How often it is looked who has waited too long, ms: patience may last this much longer. */
const CHECK_MS = 25;

/** Who waits. */
export interface Impatient {
  outOfPatience(): void;
}

/** A wait that may be over before its time. */
export class Wait {
  readonly since: number;
  #who: Impatient | undefined;

  constructor(since: number, who: Impatient) {
    this.since = since;
    this.#who = who;
  }

  get isOver(): boolean {
    return this.#who === undefined;
  }

  /** What was waited for came. */
  end(): void {
    this.#who = undefined;
  }

  giveUp(): void {
    const who = this.#who;
    this.#who = undefined;
    who?.outOfPatience();
  }
}

/** Ends waits that last too long, with one timer for all of them. */
export class Patience {
  readonly #elapsed: Clock;
  readonly #factor: () => number;
  /** By how long they may last, ms: of one line, the first began first. */
  readonly #lines = new Map<number, Denque<Wait>>();
  #timer: NodeJS.Timeout | undefined;

  /**
   * `elapsed`: ms that never go back, or waits would last as long as the clock was set back. `factor`: asked at each
   * look, how many times as long all waits may last; default 1.
   */
  constructor(elapsed: Clock, factor: () => number = () => 1) {
    this.#elapsed = elapsed;
    this.#factor = factor;
  }

  /** Tells `who` once `ms` have passed, unless the wait is ended before. */
  wait(ms: number, who: Impatient): Wait {
    const wait = new Wait(this.#elapsed(), who);
    const line = this.#lines.get(ms);
    if (line === undefined) {
      const begun = new Denque<Wait>();
      begun.push(wait);
      this.#lines.set(ms, begun);
    } else line.push(wait);
    this.#watch();
    return wait;
  }

  #watch(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#look(this.#elapsed(), this.#factor());
      if (this.#lines.size > 0) this.#watch();
    }, CHECK_MS).unref();
  }

  #look(now: number, factor: number): void {
    for (const [ms, line] of this.#lines) {
      for (let first = line.peekFront(); first !== undefined; first = line.peekFront()) {
        if (!first.isOver && now - first.since < ms * factor) break;
        line.shift();
        first.giveUp();
      }
      if (line.length === 0) this.#lines.delete(ms);
    }
  }
}
