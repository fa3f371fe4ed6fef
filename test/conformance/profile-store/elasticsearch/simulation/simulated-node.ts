import { Unavailable } from '@tributary/core';
import type {
  DocumentQuery,
  Documents,
  DocumentVersion,
  DocumentWrite,
  StoredDocument,
  WriteResult,
} from '@tributary/infra/adapters/profile-store/elasticsearch';
import type { VirtualTime } from './virtual-time.ts';

export interface NodeTroubles {
  /** The longest delay of a message, ms. */
  readonly delayMs: number;
  /** The longest time for which a write is visible before it is durable, ms. */
  readonly unsafeMs: number;
  /** The share of late messages, and their maximum delay, ms. */
  readonly lateShare: number;
  readonly lateMs: number;
  /** The time after which a caller gets an unknown outcome, ms. */
  readonly timeoutMs: number;
}

const REFRESH_MS = 500;
/** A removed document keeps its place in the order of versions. */
type State = StoredDocument | { readonly version: DocumentVersion; readonly source?: undefined };

/**
 * A node with weaker guarantees than the real one:
 * - a write is visible before it is durable, each write of a request separately;
 * - a crash reverts writes that were visible and not yet durable;
 * - messages arrive in any order, late, and after their sender timed out or died;
 * - the parts of one read are read at different times;
 * - searches lag behind.
 */
export class SimulatedNode {
  readonly #time: VirtualTime;
  #troubles: NodeTroubles;
  #seen = new Map<string, State>();
  #durable = new Map<string, State>();
  #searchable = new Map<string, State>();
  #searchableAt = 0;
  #seqNo = 0;
  #primaryTerm = 1;
  readonly #callers = new Set<(error: Error) => void>();

  constructor(time: VirtualTime, troubles: NodeTroubles) {
    this.#time = time;
    this.#troubles = troubles;
  }

  /** Reverts every write that is not durable. Pending callers get an error with an unknown outcome. */
  crash(): void {
    this.#seen = new Map(this.#durable);
    this.#primaryTerm++;
    for (const fail of [...this.#callers]) fail(new Unavailable('the node crashed'));
  }

  /** Stops delaying messages. */
  calm(): void {
    this.#troubles = { ...this.#troubles, lateShare: 0 };
  }

  /** The contents, for the checker. Call it only when no request is in flight. */
  *contents(): Generator<readonly [string, StoredDocument]> {
    for (const [id, state] of this.#durable) if (state.source !== undefined) yield [id, state];
  }

  /**
   * The connection of one process to the node. Requests in flight are never answered once `isDead` returns
   * true.
   */
  connect(isDead: () => boolean): Documents {
    return {
      read: (ids) =>
        this.#call(isDead, ids, async (id) => {
          await this.#travel();
          const state = this.#seen.get(id);
          return state?.source === undefined ? undefined : state;
        }),
      write: (writes) => this.#call(isDead, writes, (write) => this.#write(write)),
      holdsLive: async (scope) =>
        [...this.#seen.values()].some(({ source }) => {
          if (source?.state !== 'live' && source?.state !== 'redirect') return false;
          return scope === undefined || (source.org === scope.org && source.region === scope.region);
        }),
      find: async (query) => (await this.#call(isDead, [query], (one) => this.#find(one))).flat(),
    };
  }

  #call<Item, Answer>(
    isDead: () => boolean,
    items: readonly Item[],
    work: (item: Item) => Promise<Answer>,
  ): Promise<readonly Answer[]> {
    return new Promise((resolve, reject) => {
      if (isDead()) return;
      const fail = (error: Error) => {
        this.#callers.delete(fail);
        if (!isDead()) reject(error);
      };
      this.#callers.add(fail);
      this.#time.after(this.#troubles.timeoutMs, () => fail(new Unavailable('no answer in time')));
      void Promise.all(items.map(work)).then(async (answers) => {
        await this.#travel();
        // A caller that already got an unknown outcome gets no second answer.
        if (!this.#callers.delete(fail) || isDead()) return;
        resolve(answers);
      });
    });
  }

  async #write({ id, expected, source }: DocumentWrite): Promise<WriteResult> {
    await this.#travel();
    const before = this.#seen.get(id);
    const matches =
      expected === 'absent'
        ? before?.source === undefined
        : before?.source !== undefined && isSame(before.version, expected);
    if (!matches) return 'conflict';
    const version = { seqNo: ++this.#seqNo, primaryTerm: this.#primaryTerm };
    const state: State = source === 'removed' ? { version } : { version, source };
    this.#seen.set(id, state);
    await this.#time.pause(this.#time.below(this.#troubles.unsafeMs));
    // The write was lost with a crash meanwhile and will never be acknowledged.
    if (version.primaryTerm !== this.#primaryTerm) return new Promise(() => {});
    // A later write may have become durable before: then this one was already replaced.
    if ((this.#durable.get(id)?.version.seqNo ?? 0) < version.seqNo) this.#durable.set(id, state);
    return version;
  }

  async #find({ state, dirty, before, pending, limit }: DocumentQuery): Promise<readonly string[]> {
    await this.#travel();
    if (this.#time.now() - this.#searchableAt > REFRESH_MS) {
      this.#searchable = new Map(this.#seen);
      this.#searchableAt = this.#time.now();
    }
    const found = [...this.#searchable].flatMap(([id, { source }]) =>
      source === undefined ? [] : [{ id, source }],
    );
    return found
      .filter(
        ({ source }) =>
          (state === undefined || state.includes(source.state)) &&
          (dirty === undefined || source.dirty === dirty) &&
          (before === undefined || (source.updated_ts !== undefined && source.updated_ts < before)) &&
          (pending === undefined ||
            (source.pending_by === pending.by && (source.pending_n ?? 0) > pending.after)),
      )
      .sort((one, other) => (one.source.updated_ts ?? 0) - (other.source.updated_ts ?? 0))
      .slice(0, limit)
      .map(({ id }) => id);
  }

  #travel(): Promise<void> {
    const { delayMs, lateShare, lateMs } = this.#troubles;
    const late = this.#time.random() < lateShare;
    return this.#time.pause(this.#time.below(late ? lateMs : delayMs));
  }
}

function isSame(one: DocumentVersion, other: DocumentVersion): boolean {
  return one.seqNo === other.seqNo && one.primaryTerm === other.primaryTerm;
}
