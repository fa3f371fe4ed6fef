import { performance } from 'node:perf_hooks';
import type { Clock } from '@tributary/core';
import { LRUCache } from 'lru-cache';

/** Processor time that an event may take without being charged for it, ms: many times what an ordinary event takes. */
const ORDINARY_MS = 0.2;
/** The share of one thread that the events of a workspace may take beyond that... */
const SHARE = 0.1;
/** ...and how much of it at once, ms. */
const BURST_MS = 15;
/** The same for a workspace that comes back from the slow queue: a single expensive event sends it there again. */
const BURST_AGAIN_MS = 4;
/** For how long a workspace is sent through the slow queue, ms: the first time, and at most after it did so repeatedly. */
const FIRST_SLOW_MS = 1_000;
const MOST_SLOW_MS = 30_000;
/** A workspace harms nobody while no other one had an event for so long, ms. */
const ALONE_AFTER_MS = 3_600_000;
/** Others are at work when an event of theirs came within this time, ms. */
const BUSY_MS = 1_000;
/** Workspaces with expensive events that are remembered. */
const REMEMBERED = 10_000;

interface Tenant {
  /** What it took beyond its share, ms; leaks with the time that the thread has. */
  level: number;
  /** When it leaked, ms of that time. */
  leakedAt: number;
  slowUntil: number;
  slowMs: number;
}

/**
 * The share of one stage's processor time that each workspace has in this process: a leaky bucket of what its events
 * take beyond ordinary ones. A workspace that overflows it has its events sent through the stage's slow queue for a
 * while, so that they delay only each other. Many ordinary events are never charged: to pass them on to a slow queue
 * would cost as much as to process them.
 */
export class FairShare {
  readonly #elapsed: Clock;
  readonly #available: Clock;
  readonly #tenants = new LRUCache<string, Tenant>({ max: REMEMBERED });
  /** The workspace of the latest event. */
  #latest = '';
  /** Whether events of more than one workspace came since that was last asked, and when it was so. */
  #haveOthersCome = false;
  #othersCameAt = Number.NEGATIVE_INFINITY;
  /** Events that take no slow queue; how many there were when that was last asked, and when they had become more. */
  #passed = 0;
  #passedBefore = 0;
  #passedAt = Number.NEGATIVE_INFINITY;

  /** `elapsed`: ms that never go back. */
  constructor(elapsed: Clock, { available }: Pick<ThreadTime, 'available'>) {
    this.#elapsed = elapsed;
    this.#available = available;
  }

  /** Notes that an event of the workspace came. True when it belongs into the slow queue. Reads no clock for most events. */
  goesToSlowQueue(workspaceId: string): boolean {
    if (workspaceId !== this.#latest) {
      this.#haveOthersCome ||= this.#latest !== '';
      this.#latest = workspaceId;
    }
    const tenant = this.#tenants.size === 0 ? undefined : this.#tenants.get(workspaceId);
    if (tenant !== undefined && this.#elapsed() < tenant.slowUntil) return true;
    this.#passed += 1;
    return false;
  }

  /** Charges the processor time that one event took, ms. */
  charge(workspaceId: string, ms: number): void {
    if (ms <= ORDINARY_MS) return;
    const now = this.#elapsed();
    const available = this.#available();
    const fresh = { level: 0, leakedAt: available, slowUntil: Number.NEGATIVE_INFINITY, slowMs: 0 };
    const tenant = this.#tenants.get(workspaceId) ?? fresh;
    this.#tenants.set(workspaceId, tenant);
    const leaked = (available - tenant.leakedAt) * SHARE;
    // What no other workspace was there to suffer from is not held against it.
    tenant.level = Math.min(2 * BURST_MS, Math.max(0, tenant.level - leaked) + ms - ORDINARY_MS);
    tenant.leakedAt = available;
    const isAgain = now - tenant.slowUntil < 2 * tenant.slowMs;
    const burst = isAgain ? BURST_AGAIN_MS : BURST_MS;
    if (tenant.level <= burst || now < tenant.slowUntil || this.#isAlone(now)) return;
    tenant.slowMs = isAgain ? Math.min(MOST_SLOW_MS, tenant.slowMs * 2) : FIRST_SLOW_MS;
    tenant.slowUntil = now + tenant.slowMs;
  }

  /** Whether events that take no slow queue came lately. */
  get isBusy(): boolean {
    const now = this.#elapsed();
    if (this.#passed !== this.#passedBefore) this.#passedAt = now;
    this.#passedBefore = this.#passed;
    return now - this.#passedAt < BUSY_MS;
  }

  #isAlone(now: number): boolean {
    if (this.#haveOthersCome) this.#othersCameAt = now;
    this.#haveOthersCome = false;
    return now - this.#othersCameAt >= ALONE_AFTER_MS;
  }
}

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

/**
 * What the operating system gave to this thread. Shares are measured by it, not by elapsed time: where the thread gets a
 * tenth of a processor, a tenth of the elapsed time is all it has.
 */
export interface ThreadTime {
  /** Processor time of the thread, ms. */
  readonly cpu: Clock;
  /** Time in which the thread ran or had nothing to do, ms: elapsed time without that in which it waited to run. */
  readonly available: Clock;
}

export const THREAD_TIME: ThreadTime = {
  cpu: cpuMs,
  available: () => performance.eventLoopUtilization().idle + cpuMs(),
};

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
