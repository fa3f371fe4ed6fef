import { Worker } from 'node:worker_threads';
import {
  type Charged,
  InvalidInput,
  type LeftOut,
  type Logger,
  type LostValues,
  type ProfileDeletion,
  type ProfileDeletionOutcome,
  type ProfileSplit,
  type ProfileUnlink,
  type ProfileUnlinkOutcome,
  type ProfileWrite,
  type ProfileWriteOutcome,
  type SplitRefusal,
  type UnattributedValues,
  Unavailable,
  type UnlinkRefusal,
} from '@tributary/core';
import { GroupCommit } from '../../group-commit/group-commit.ts';

const MAX_UNCONFIRMED_BYTES = 64 * 1024 * 1024;
const MAX_GROUP_BYTES = 4 * 1024 * 1024;
/** One group is carried out while the next is on its way to the thread. */
const MAX_IN_FLIGHT = 2;
/** A group of this size is sent at once. Otherwise callers that are answered together would wait for each other again. */
const EAGER_REQUESTS = 32;

interface Pending {
  readonly resolve: (answers: readonly StoreAnswer[]) => void;
  readonly reject: (reason: Unavailable) => void;
}

/** A queued request, and its answer. */
interface QueuedRequest {
  readonly text: string;
  answer?: StoreAnswer;
}

/**
 * Sends write requests to a thread of their own, where concurrent requests share one transaction and one fsync. Each owner
 * has groups of its own, which the thread carries out in turns: what one owner has queued delays no other. The thread
 * starts with the first request, and again if it dies.
 */
export class ProfileWriter {
  readonly #options: WriterOptions;
  readonly #logger: Logger;
  readonly #groups = new Map<string, GroupCommit<QueuedRequest>>();
  readonly #pending = new Map<number, Pending>();
  #thread: Worker | undefined;
  #lastId = 0;

  constructor(options: WriterOptions, logger: Logger) {
    this.#options = options;
    this.#logger = logger;
  }

  /**
   * Resolves when the request is durable. Rejects with `Overloaded` or `InvalidInput` (nothing was written), or
   * `Unavailable` (the outcome is unknown). Requests of one owner are carried out in the order of the calls.
   */
  async ask(owner: string, request: StoreRequest): Promise<StoreAnswer> {
    const queued: QueuedRequest = { text: JSON.stringify(request) };
    const groups = this.#groupsOf(owner);
    try {
      await groups.add(queued, queued.text.length);
    } finally {
      if (groups.isIdle && this.#groups.get(owner) === groups) this.#groups.delete(owner);
    }
    const { answer } = queued;
    if (answer === undefined) throw new Unavailable('the thread gave no answer');
    if (answer.kind === 'failed') throw new InvalidInput(answer.error);
    return answer;
  }

  /** Waits for the requests under way, then ends the thread. */
  async close(): Promise<void> {
    while (this.#groups.size > 0)
      for (const [owner, groups] of this.#groups) {
        await groups.drained();
        this.#groups.delete(owner);
      }
    const thread = this.#thread;
    if (!thread) return;
    const exited = new Promise((resolve) => thread.once('exit', resolve));
    this.#post(thread, { kind: 'close' });
    await exited;
  }

  #groupsOf(owner: string): GroupCommit<QueuedRequest> {
    const known = this.#groups.get(owner);
    if (known !== undefined) return known;
    const groups = new GroupCommit<QueuedRequest>({
      maxInFlight: MAX_IN_FLIGHT,
      eagerRequests: EAGER_REQUESTS,
      maxUnconfirmedBytes: MAX_UNCONFIRMED_BYTES,
      maxGroupBytes: MAX_GROUP_BYTES,
      commit: (group) => this.#commit(owner, group),
    });
    this.#groups.set(owner, groups);
    return groups;
  }

  async #commit(owner: string, group: readonly QueuedRequest[]): Promise<void> {
    const answers = await new Promise<readonly StoreAnswer[]>((resolve, reject) => {
      const id = ++this.#lastId;
      this.#pending.set(id, { resolve, reject });
      this.#thread ??= this.#start();
      const requests = `[${group.map(({ text }) => text).join(',')}]`;
      this.#post(this.#thread, { kind: 'group', id, owner, requests });
    });
    for (const [at, queued] of group.entries()) {
      const answer = answers[at];
      if (answer !== undefined) queued.answer = answer;
    }
  }

  #post(thread: Worker, message: ThreadRequest): void {
    thread.postMessage(message);
  }

  #start(): Worker {
    const { file } = this.#options;
    const workerData: WriterOptions = this.#options;
    const thread = new Worker(new URL('./writer-thread.ts', import.meta.url), {
      workerData,
      execArgv: ['--report-exclude-env'],
    });
    thread.on('message', (reply: ThreadReply) => this.#onReply(reply));
    thread.on('error', (error) =>
      this.#logger.error({ file, error: error.message }, 'the thread that writes profiles failed'),
    );
    thread.on('exit', () => {
      if (this.#thread === thread) this.#thread = undefined;
      for (const pending of this.#pending.values()) pending.reject(new Unavailable('profile thread ended'));
      this.#pending.clear();
    });
    return thread;
  }

  #onReply(reply: ThreadReply): void {
    const pending = this.#pending.get(reply.id);
    this.#pending.delete(reply.id);
    if (reply.kind === 'committed') pending?.resolve(reply.answers);
    else pending?.reject(new Unavailable(reply.error));
  }
}

/** A request to the writer thread. `now`: the time of the call, epoch ms. */
export type StoreRequest =
  /**
   * `digests`: the digests of the write's `identitiesToLookUp`, hexadecimal. The caller hashes them while the thread
   * writes. `ucid`: for the profile, if the write creates one.
   */
  | {
      readonly kind: 'upsert';
      readonly write: ProfileWrite;
      readonly digests: readonly string[];
      readonly ucid: string;
      readonly now: number;
    }
  /** `earlier`: ids of profiles that earlier requests of the same call have deleted. */
  | {
      readonly kind: 'delete';
      readonly deletion: ProfileDeletion;
      readonly earlier: readonly number[];
      readonly now: number;
    }
  | { readonly kind: 'unlink'; readonly unlink: ProfileUnlink; readonly now: number }
  | { readonly kind: 'split'; readonly split: ProfileSplit; readonly now: number }
  /** Changes up to this number were published. */
  | { readonly kind: 'published'; readonly upTo: number }
  /** Forgets some of the deletions before this time, epoch ms. */
  | { readonly kind: 'forget'; readonly before: number };

export type StoreAnswer = Charged &
  /** `profile` is JSON. */
  (
    | {
        readonly kind: 'written';
        readonly profile: string;
        readonly leftOut: readonly LeftOut[];
        readonly changed: boolean;
      }
    | Extract<ProfileWriteOutcome, { kind: 'refused' }>
    /** `ids`: of the deleted profiles. */
    | { readonly kind: 'deleted'; readonly outcome: ProfileDeletionOutcome; readonly ids: readonly number[] }
    /** `profile` is JSON. */
    | (Omit<Extract<ProfileUnlinkOutcome, { kind: 'unlinked' }>, 'profile'> & { readonly profile: string })
    | {
        readonly kind: 'not_unlinked';
        readonly reason: UnlinkRefusal;
        readonly elsewhere?: readonly number[];
      }
    /** `profile` and `survivor` are JSON. */
    | {
        readonly kind: 'split';
        readonly profile: string;
        readonly survivor: string;
        readonly kept: UnattributedValues;
        readonly lost: LostValues;
      }
    | { readonly kind: 'not_split'; readonly reason: SplitRefusal }
    /** How many deletions were forgotten, or changes removed from the outbox. */
    | { readonly kind: 'done'; readonly count: number }
    /** This request alone failed; nothing of it was written. */
    | { readonly kind: 'failed'; readonly error: string }
  );

export interface WriterOptions {
  readonly file: string;
  readonly busyTimeoutMs: number;
}

export type ThreadRequest =
  /** `requests`: JSON of a list of `StoreRequest`s, as one text crosses threads faster than many objects. */
  | { readonly kind: 'group'; readonly id: number; readonly owner: string; readonly requests: string }
  | { readonly kind: 'close' };

export type ThreadReply =
  /** `answers`: in the order of the requests; all of them are durable. */
  | { readonly kind: 'committed'; readonly id: number; readonly answers: readonly StoreAnswer[] }
  /** The outcome of the group is unknown. */
  | { readonly kind: 'failed'; readonly id: number; readonly error: string };
