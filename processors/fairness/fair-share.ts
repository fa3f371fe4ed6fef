import { performance } from 'node:perf_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock, OutputRecord } from '@tributary/core';
import { LRUCache } from 'lru-cache';

/** Processor time of an event that is free of charge, ms: many times that of an ordinary event. */
const ORDINARY_MS = 0.2;
/** The share of one thread that the events of a workspace may use beyond `ORDINARY_MS` each. */
const SHARE = 0.1;
/** Processor time beyond its share that a workspace may use in a burst, ms. */
const BURST_MS = 15;
/** The burst of a workspace that returned from the slow queue: a single expensive event sends it there again. */
const BURST_AGAIN_MS = 4;
/** How long a workspace is sent through the slow queue, ms: the first time, and at most after repetitions. */
const FIRST_SLOW_MS = 1_000;
const MOST_SLOW_MS = 30_000;
/** A workspace is alone when no other one had an event for so long, ms: then it delays no other. */
const ALONE_AFTER_MS = 3_600_000;
/** The stage is busy when an event came within this time, ms. */
const BUSY_MS = 1_000;
/** Workspaces with expensive events that are remembered. */
const REMEMBERED = 10_000;

/** Output records of an event that are free of charge. */
const ORDINARY_RECORDS = 10;
/** Processor time of a further one in the stages behind, ms: a delivery with attempt and outcome, a violation; their history. */
const MS_PER_RECORD_BEHIND = 0.1;

/** The cost of an event that becomes so many records for the stages behind, beyond an ordinary one, ms. */
export function recordsBehindMs(records: number): number {
  return Math.max(0, records - ORDINARY_RECORDS) * MS_PER_RECORD_BEHIND;
}

interface Tenant {
  /** Processor time beyond its share, ms; leaks with the time that is available to the thread. */
  level: number;
  /** When it leaked last, ms of available time. */
  leakedAt: number;
  slowUntil: number;
  slowMs: number;
}

/**
 * Limits the processor time of each workspace in one stage of this process, by a leaky bucket of the time that its events
 * take beyond ordinary ones. The events of a workspace that overflows it go through the slow queue of the stage for a while,
 * so that they delay only each other. Ordinary events are never charged, however many: sending them to the slow queue would
 * cost as much as processing them.
 */
export class FairShare {
  readonly #elapsed: Clock;
  readonly #available: Clock;
  readonly #tenants = new LRUCache<string, Tenant>({ max: REMEMBERED });
  /** The workspace of the latest event. */
  #latest = '';
  /** Whether events of several workspaces came since the last check, and when a check last found so. */
  #haveOthersCome = false;
  #othersCameAt = Number.NEGATIVE_INFINITY;
  /** Events that did not go to the slow queue; their number at the last check, and when a check last found more. */
  #passed = 0;
  #passedBefore = 0;
  #passedAt = Number.NEGATIVE_INFINITY;

  /** `elapsed`: ms of a monotonic clock. */
  constructor(elapsed: Clock, { available }: Pick<ThreadTime, 'available'>) {
    this.#elapsed = elapsed;
    this.#available = available;
  }

  /** Registers an event of a workspace. Returns whether it goes to the slow queue. Reads no clock for most events. */
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

  /** Charges the processor time of one event, ms. */
  charge(workspaceId: string, ms: number): void {
    if (ms <= ORDINARY_MS) return;
    const now = this.#elapsed();
    const available = this.#available();
    const fresh = { level: 0, leakedAt: available, slowUntil: Number.NEGATIVE_INFINITY, slowMs: 0 };
    const tenant = this.#tenants.get(workspaceId) ?? fresh;
    this.#tenants.set(workspaceId, tenant);
    const leaked = (available - tenant.leakedAt) * SHARE;
    // Capped, so that time used while no other workspace was active is soon forgotten.
    tenant.level = Math.min(2 * BURST_MS, Math.max(0, tenant.level - leaked) + ms - ORDINARY_MS);
    tenant.leakedAt = available;
    const isAgain = now - tenant.slowUntil < 2 * tenant.slowMs;
    const burst = isAgain ? BURST_AGAIN_MS : BURST_MS;
    if (tenant.level <= burst || now < tenant.slowUntil || this.#isAlone(now)) return;
    tenant.slowMs = isAgain ? Math.min(MOST_SLOW_MS, tenant.slowMs * 2) : FIRST_SLOW_MS;
    tenant.slowUntil = now + tenant.slowMs;
  }

  /** Whether events outside of the slow queue came lately. */
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
 * Measures the events of one slice of the thread and charges their workspaces. Elapsed time is measured for each event and
 * corrected by the processor time of the slice, so that on an overloaded machine a workspace is not charged for time in which
 * the thread did not run.
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

  /** Charges the time since the last call, or since the slice began, to the workspace. */
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

  /** After the thread was yielded. */
  restart(): void {
    this.#beganAt = this.#elapsed();
    this.#last = this.#beganAt;
    this.#cpuAt = this.#cpu();
  }
}

/** Shorter costs are never charged. */
const NOTED_MS = 0.1;

/**
 * The time that the operating system gave to this thread. Shares are measured by it and not by elapsed time: a thread that
 * gets a tenth of a processor has a tenth of the elapsed time.
 */
export interface ThreadTime {
  /** Processor time of the thread, ms. */
  readonly cpu: Clock;
  /** Time in which the thread ran or was idle, ms: elapsed time without waits for a processor. */
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

/**
 * Processor time of one output record, ms: to write and read it, and as a delivery its attempt, its outcome, its history, its
 * counts.
 */
const MS_PER_RECORD = 0.25;
/**
 * 20 ns are of the next stages, 60 on slow cores; the rest stands for the broker and the network, which all workspaces share
 * as well. With half of it, large outputs delay other workspaces on Kafka noticeably.
 */
const DOWNSTREAM_MS_PER_CHARACTER = 200e-6;

/** Processor time that output records cost behind the stage, ms. */
export function downstreamMs(outputRecords: readonly OutputRecord[]): number {
  let characters = 0;
  for (const { value } of outputRecords) characters += value.length;
  return outputRecords.length * MS_PER_RECORD + characters * DOWNSTREAM_MS_PER_CHARACTER;
}

/** Characters of one event's outputs in one piece of work: about a millisecond of the thread. */
export const PIECE_CHARS = 128 * 1024;

/** Outputs below this are too small for a piece of their own. */
export const SMALL_CHARS = 16 * 1024;

/**
 * Runs one piece of the work on an event's outputs, so that a large event does not block the thread for all of them.
 * `downstream`: the processor time that the result costs other parts of this thread, ms.
 */
export type RunPiece = <T>(
  workspaceId: string,
  work: () => T,
  downstream?: (result: T) => number,
) => Promise<T>;

/** For quick stages: yields to the event loop after each piece. */
export const yielding: RunPiece = async (_workspaceId, work) => {
  const result = work();
  await nextTurn();
  return result;
};

/** At least one item from `from` on, up to a total of `chars` characters. */
export function pieceOf(items: readonly string[], from: number, chars = PIECE_CHARS): readonly string[] {
  let taken = 0;
  let to = from;
  do {
    taken += items[to]?.length ?? 0;
    to += 1;
  } while (to < items.length && taken < chars);
  return items.slice(from, to);
}

/** How long work waits for a slot, ms. The work with the slots may itself wait for it: entries of a log end in order. */
const LONGEST_WAIT_MS = 1_000;

/**
 * Bounds the work that each workspace has under way; workspaces do not wait for one another. Work that has waited for
 * `LONGEST_WAIT_MS` begins beyond the bound.
 */
export class WorkspaceSlots {
  readonly #most: number;
  readonly #running = new Map<string, Slots>();

  constructor(most: number) {
    this.#most = most;
  }

  async run<T>(workspaceId: string, work: () => Promise<T>): Promise<T> {
    const known = this.#running.get(workspaceId) ?? { count: 0, waiting: [] };
    this.#running.set(workspaceId, known);
    if (known.count < this.#most) known.count += 1;
    else if (!(await granted(known))) known.count += 1;
    try {
      return await work();
    } finally {
      const next = known.count > this.#most ? undefined : known.waiting.shift();
      if (next !== undefined) next();
      else {
        known.count -= 1;
        if (known.count === 0) this.#running.delete(workspaceId);
      }
    }
  }
}

interface Slots {
  count: number;
  /** Work that waits, oldest first; called when it is handed a slot. */
  readonly waiting: (() => void)[];
}

/** Whether a slot was handed over in time. */
function granted({ waiting }: Slots): Promise<boolean> {
  return new Promise((resolve) => {
    const hand = () => {
      clearTimeout(timer);
      resolve(true);
    };
    const timer = setTimeout(() => {
      waiting.splice(waiting.indexOf(hand), 1);
      resolve(false);
    }, LONGEST_WAIT_MS);
    waiting.push(hand);
  });
}
