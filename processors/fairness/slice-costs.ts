import type { Clock } from '@tributary/core';
import type { FairShare } from './fair-share.ts';

/**
 * What the events of one slice of the thread took, for the shares of their workspaces. Elapsed time is measured for
 * each event, and corrected by the processor time of the slice: on a machine that is overloaded, a workspace is not
 * charged for the time in which the thread did not run.
 */
export class SliceCosts {
  readonly #share: FairShare;
  readonly #elapsed: Clock;
  readonly #cpu: Clock;
  readonly #costs: (readonly [workspaceId: string, ms: number])[] = [];
  #beganAt: number;
  #cpuAt: number;
  #last: number;

  constructor(share: FairShare, elapsed: Clock, cpu: Clock) {
    this.#share = share;
    this.#elapsed = elapsed;
    this.#cpu = cpu;
    this.#beganAt = elapsed();
    this.#last = this.#beganAt;
    this.#cpuAt = cpu();
  }

  /** Charges what passed since the last call, or since the slice began, to the workspace. */
  note(workspaceId: string): void {
    const now = this.#elapsed();
    if (now - this.#last >= NOTED_MS) this.#costs.push([workspaceId, now - this.#last]);
    this.#last = now;
  }

  /** Ends the slice and begins the next one. */
  end(): void {
    const [now, cpu] = [this.#elapsed(), this.#cpu()];
    const took = now - this.#beganAt;
    const ratio = took > 0 ? Math.min(1, Math.max(0, (cpu - this.#cpuAt) / took)) : 1;
    for (const [workspaceId, ms] of this.#costs.splice(0)) this.#share.charge(workspaceId, ms * ratio);
    this.restart();
  }

  /** After the thread was given back. */
  restart(): void {
    this.#beganAt = this.#elapsed();
    this.#last = this.#beganAt;
    this.#cpuAt = this.#cpu();
  }
}

/** Shorter costs are never charged. */
const NOTED_MS = 0.1;
