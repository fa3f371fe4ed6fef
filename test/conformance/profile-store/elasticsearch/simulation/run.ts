import {
  type Identity,
  type IdentityLimits,
  NO_LOGGER,
  type Profile,
  type ProfileChange,
  type ProfileWrite,
  Unavailable,
} from '@tributary/core';
import { DocumentProfileStore } from '@tributary/infra/adapters/profile-store/elasticsearch';
import { LRUCache } from 'lru-cache';
import { type NodeTroubles, SimulatedNode } from './simulated-node.ts';
import { VirtualTime } from './virtual-time.ts';

export interface SimulationOptions {
  readonly seed: number;
  readonly operations: number;
  /** Concurrent processes; one that dies is replaced. */
  readonly processes: number;
  /** Callers in each process. */
  readonly callers: number;
  /** Number of people; fewer means more conflicts. */
  readonly people: number;
  /** The share of deletions among the operations, and of events among the writes. */
  readonly deletionShare: number;
  readonly eventShare: number;
  /** The share of unlinks among the operations. Default none. */
  readonly unlinkShare?: number;
  /** The share of splits, of ucids from answers, among the operations. Default none. */
  readonly splitShare?: number;
  /** The limits of every write. Default: those of an organization without settings, which no run reaches. */
  readonly limits?: IdentityLimits;
  /** The times of writes are multiples of it, ms; more means more writes of the same time. Default 1. */
  readonly writeTimeStepMs?: number;
  /** Mean time between two crashes of the node, and of one process, ms; absent: never. */
  readonly nodeCrashMs?: number | undefined;
  readonly processCrashMs?: number | undefined;
  /** Longest time between two sweeps of a process, ms. */
  readonly sweepMs: number;
  readonly troubles: NodeTroubles;
}

/** The request of a caller. Times are virtual. */
interface Timed {
  readonly begunAt: number;
  /** Absent: there was no answer. */
  endedAt?: number;
}
export interface WriteAttempt extends Timed {
  readonly kind: 'write';
  readonly write: ProfileWrite;
  /** An attribute unique to this write: it shows whether the write was carried out. */
  readonly mark: string;
  answer?: Awaited<ReturnType<DocumentProfileStore['upsert']>>;
}
export interface DeletionAttempt extends Timed {
  readonly kind: 'deletion';
  readonly identity: Identity;
  deleted?: readonly string[];
}
export interface SearchAttempt extends Timed {
  readonly kind: 'search';
  readonly identity: Identity;
  found?: readonly Profile[];
}
export interface UnlinkAttempt extends Timed {
  readonly kind: 'unlink';
  readonly identity: Identity;
  answer?: Awaited<ReturnType<DocumentProfileStore['unlink']>>;
}
export interface SplitAttempt extends Timed {
  readonly kind: 'split';
  readonly ucid: string;
  answer?: Awaited<ReturnType<DocumentProfileStore['split']>>;
}
export type Attempt = WriteAttempt | DeletionAttempt | SearchAttempt | UnlinkAttempt | SplitAttempt;

export interface SimulationRun {
  readonly limits: IdentityLimits | undefined;
  readonly attempts: readonly Attempt[];
  /** Published changes, in any order, some more than once. */
  readonly changes: readonly ProfileChange[];
  readonly node: SimulatedNode;
  /** The answers of a process that starts after the run. */
  readonly afterwards: {
    search(identities: readonly Identity[], ucids: readonly string[]): Promise<readonly Profile[]>;
  };
}

const SCOPE = { org: 1, region: 'eu' } as const;
const EVERYWHERE = { org: SCOPE.org, regions: [SCOPE.region] };
const RETENTION_MS = 10 * 24 * 3_600_000;

/**
 * Callers in several processes that write, search and delete, while processes and the node crash; then a
 * period without faults.
 */
export async function simulateProfiles(options: SimulationOptions): Promise<SimulationRun> {
  const time = new VirtualTime(options.seed);
  const run = new Run(options, time);
  return time.run(run.run());
}

interface SimulatedProcess {
  readonly store: DocumentProfileStore;
  dead: boolean;
}

class Run {
  readonly #options: SimulationOptions;
  readonly #time: VirtualTime;
  readonly #node: SimulatedNode;
  readonly #attempts: Attempt[] = [];
  readonly #changes: ProfileChange[] = [];
  #ucids = 0;
  #answered = 0;
  #isPeace = false;

  constructor(options: SimulationOptions, time: VirtualTime) {
    this.#options = options;
    this.#time = time;
    this.#node = new SimulatedNode(time, options.troubles);
  }

  async run(): Promise<SimulationRun> {
    const { processes, operations, nodeCrashMs } = this.#options;
    const running = Array.from({ length: processes }, () => this.#keepProcess());
    const crashing = (async () => {
      while (nodeCrashMs !== undefined && this.#attempts.length < operations) {
        await this.#time.pause(2 * nodeCrashMs * this.#time.random());
        this.#node.crash();
      }
    })();
    await Promise.all([...running, crashing]);
    this.#isPeace = true;
    this.#node.calm();
    await this.#time.pause(30_000);
    const last = this.#start();
    for (let sweep = 0; sweep < 8; sweep++) {
      await last.store.sweep();
      await this.#time.pause(10_000);
    }
    return {
      limits: this.#options.limits,
      attempts: this.#attempts,
      changes: this.#changes,
      node: this.#node,
      afterwards: {
        search: (identities, ucids) =>
          this.#time.run(last.store.search({ ...EVERYWHERE, identities, ucids })),
      },
    };
  }

  /** A process and its successors. */
  async #keepProcess(): Promise<void> {
    const { operations, callers, processCrashMs } = this.#options;
    while (this.#attempts.length < operations) {
      const process = this.#start();
      const working = Array.from({ length: callers }, () => this.#call(process));
      const dying = (async () => {
        const livesMs =
          processCrashMs === undefined ? Number.POSITIVE_INFINITY : 2 * processCrashMs * this.#time.random();
        const until = this.#time.now() + livesMs;
        while (!process.dead && this.#attempts.length < operations) {
          await this.#time.pause(this.#time.below(20));
          if (this.#time.now() < until) continue;
          process.dead = true;
        }
      })();
      const sweeping = this.#sweep(process);
      await dying;
      // A dead process answers no more calls.
      if (!process.dead) await Promise.all([...working, sweeping]);
    }
  }

  #start(): SimulatedProcess {
    const process: { dead: boolean; store?: DocumentProfileStore } = { dead: false };
    const time = this.#time;
    const store = new DocumentProfileStore({
      documents: this.#node.connect(() => process.dead),
      publish: async (changes) => {
        await time.pause(time.below(50));
        if (process.dead) return new Promise(() => {});
        if (!this.#isPeace && time.random() < 0.05) throw new Unavailable('the log does not answer');
        this.#changes.push(...changes);
      },
      // Clocks of processes differ.
      clock: clockOf(time, time.below(40)),
      pause: time.pause,
      random: time.random,
      newUcid: () => {
        const order = this.#ucids++;
        return `${String(time.now()).padStart(14, '0')}-${String(order).padStart(8, '0')}-${time.below(1e6)}`;
      },
      logger: NO_LOGGER,
      retentionMs: RETENTION_MS,
      locations: new LRUCache<string, string>({ max: 20 }),
    });
    process.store = store;
    return process as SimulatedProcess;
  }

  async #sweep(process: SimulatedProcess): Promise<void> {
    while (!process.dead && this.#attempts.length < this.#options.operations) {
      await this.#time.pause(this.#time.below(this.#options.sweepMs));
      if (process.dead) return;
      await process.store.sweep().catch(() => {});
    }
  }

  async #call(process: SimulatedProcess): Promise<void> {
    const { operations, deletionShare, unlinkShare = 0, splitShare = 0 } = this.#options;
    while (!process.dead && this.#attempts.length < operations) {
      const dice = this.#time.random();
      const before = this.#answered;
      if (dice < deletionShare) await this.#delete(process);
      else if (dice < deletionShare + 0.2) await this.#search(process);
      else if (dice < deletionShare + 0.2 + unlinkShare) await this.#unlink(process);
      else if (dice < deletionShare + 0.2 + unlinkShare + splitShare) await this.#split(process);
      else await this.#write(process);
      // A caller without an answer backs off; otherwise most of a run would consist of failures.
      await this.#time.pause(this.#time.below(this.#answered === before ? 300 : 10));
    }
  }

  async #write({ store }: SimulatedProcess): Promise<void> {
    const attempt = this.#draw();
    await this.#try(attempt, async () => {
      attempt.answer = await store.upsert(attempt.write);
    });
  }

  async #search({ store }: SimulatedProcess): Promise<void> {
    const attempt: SearchAttempt = { kind: 'search', identity: this.#identity(), begunAt: this.#time.now() };
    await this.#try(attempt, async () => {
      attempt.found = await store.search({ ...EVERYWHERE, identities: [attempt.identity], ucids: [] });
    });
  }

  async #delete({ store }: SimulatedProcess): Promise<void> {
    const attempt: DeletionAttempt = {
      kind: 'deletion',
      identity: this.#identity(),
      begunAt: this.#time.now(),
    };
    await this.#try(attempt, async () => {
      const { deleted } = await store.delete({ ...EVERYWHERE, identities: [attempt.identity], ucids: [] });
      attempt.deleted = deleted;
    });
  }

  async #unlink({ store }: SimulatedProcess): Promise<void> {
    const attempt: UnlinkAttempt = { kind: 'unlink', identity: this.#identity(), begunAt: this.#time.now() };
    await this.#try(attempt, async () => {
      attempt.answer = await store.unlink({ ...SCOPE, identities: [attempt.identity] });
    });
  }

  async #split({ store }: SimulatedProcess): Promise<void> {
    const attempt: SplitAttempt = { kind: 'split', ucid: this.#ucid(), begunAt: this.#time.now() };
    await this.#try(attempt, async () => {
      attempt.answer = await store.split({ ...SCOPE, ucid: attempt.ucid });
    });
  }

  /** Records the attempt, and when it was answered. */
  async #try(attempt: Attempt, call: () => Promise<void>): Promise<void> {
    this.#attempts.push(attempt);
    try {
      await call();
      attempt.endedAt = this.#time.now();
      this.#answered++;
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
    }
  }

  /** The ucid in the answer to a recent write, mostly one that was merged. */
  #ucid(): string {
    const answers = this.#attempts.slice(this.#time.random() < 0.5 ? -60 : -12).flatMap((one) => {
      if (one.kind !== 'write' || one.answer?.kind !== 'written') return [];
      const { ucid, linked } = one.answer.profile;
      return linked.length === 0 ? [ucid] : linked;
    });
    return answers[this.#time.below(answers.length)] ?? 'nobody';
  }

  /** Sometimes repeats an earlier write, as a caller does that missed the answer. */
  #draw(): WriteAttempt {
    const { eventShare, limits, writeTimeStepMs = 1 } = this.#options;
    const again = this.#attempts[this.#attempts.length - 1 - this.#time.below(12)];
    if (again?.kind === 'write' && this.#time.random() < 0.1)
      return { kind: 'write', write: again.write, mark: again.mark, begunAt: this.#time.now() };
    const mark = `m${this.#attempts.length}`;
    const begunAt = this.#time.now();
    const isEvent = this.#time.random() < eventShare;
    const count = 1 + this.#time.below(3);
    const identities = isEvent
      ? this.#eventIdentities()
      : distinct(Array.from({ length: count }, () => this.#identity()));
    const drawn = begunAt - this.#time.below(200);
    const ts = drawn - (drawn % writeTimeStepMs);
    const write: ProfileWrite = {
      ...SCOPE,
      identities,
      attributes: [
        {
          path: ['shared', `a${this.#time.below(3)}`],
          ...(this.#time.random() < 0.2 ? { value: null, unset: true } : { value: mark }),
        },
        { path: ['marks', mark], value: 1 },
      ],
      preferences: [],
      consents: [{ name: mark, value: 'yes' }],
      ts,
      linking: isEvent ? 'keep-people-apart' : 'merge',
      ...(limits === undefined ? {} : { limits }),
      ...(isEvent ? { receivedAt: begunAt, happenedAt: begunAt - this.#lateness() } : {}),
    };
    return { kind: 'write', write, mark, begunAt };
  }

  /** The lateness of an event, ms: some arrive long after they happened, and after a deletion. */
  #lateness(): number {
    return this.#time.below(this.#time.random() < 0.3 ? 2_000 : 100);
  }

  #identity(): Identity {
    const types = ['user_id', 'anonymous_id', 'email'] as const;
    const type = types[this.#time.below(types.length)] ?? 'email';
    return { type, value: `${type}-${this.#time.below(this.#options.people)}` };
  }

  /** A person on a device that others use too. */
  #eventIdentities(): readonly Identity[] {
    const of = (type: string) => ({ type, value: `${type}-${this.#time.below(this.#options.people)}` });
    const dice = this.#time.random();
    if (dice < 0.2) return [of('anonymous_id'), of('email')];
    if (dice < 0.3) return [of('anonymous_id')];
    if (dice < 0.7) return [of('user_id'), of('anonymous_id')];
    return [of('user_id'), of('anonymous_id'), of('email')];
  }
}

function clockOf(time: VirtualTime, ahead: number): () => number {
  return () => time.now() + ahead;
}

function distinct(identities: readonly Identity[]): readonly Identity[] {
  return [...new Map(identities.map((one) => [`${one.type}=${one.value}`, one])).values()];
}
