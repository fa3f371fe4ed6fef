import type { SandboxLimits } from './limits.ts';
import { cpuMs, residentMb } from './process-stats.ts';

/** How often a worker with something to do is looked at, ms. */
export const WATCH_EVERY_MS = 25;
/** Whatever the CPU time says: silent for this many times `watchdogMs` is dead (stopped, swapped out). */
const GIVE_UP_FACTOR = 20;
/** So many times as patient with one that runs when nothing else wants to. */
const STANDING_BACK = 5;

/** Watches one worker over one errand at a time. */
export class Watchdog {
  readonly #pid: number;
  readonly #limits: SandboxLimits;
  readonly #giveUpMs: number;
  #errand: object | undefined;
  #since = 0;
  #cpuBefore: number | undefined;

  constructor(pid: number, limits: SandboxLimits, standsBack: boolean) {
    this.#pid = pid;
    this.#limits = limits;
    this.#giveUpMs = limits.watchdogMs * GIVE_UP_FACTOR * (standsBack ? STANDING_BACK : 1);
  }

  /** What the worker must be killed for, seen at `now` (ms) while `errand` is under way. */
  look(errand: object, now: number): 'timeout' | 'memory' | undefined {
    if (errand !== this.#errand) {
      this.#errand = errand;
      this.#since = now;
      this.#cpuBefore = cpuMs(this.#pid);
    }
    if ((residentMb(this.#pid) ?? 0) > this.#limits.processMb) return 'memory';
    return this.#isStuck(now - this.#since) ? 'timeout' : undefined;
  }

  /** On a busy machine a worker may be silent because it does not get to run: that is not its fault. */
  #isStuck(silentMs: number): boolean {
    const { watchdogMs, eventMs } = this.#limits;
    if (silentMs < watchdogMs) return false;
    if (this.#cpuBefore === undefined || silentMs >= this.#giveUpMs) return true;
    return (cpuMs(this.#pid) ?? Number.POSITIVE_INFINITY) - this.#cpuBefore >= eventMs;
  }
}
