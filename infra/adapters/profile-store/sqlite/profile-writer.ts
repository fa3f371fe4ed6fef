import { Worker } from 'node:worker_threads';
import { InvalidInput, type Logger, Unavailable } from '@tributary/core';
import { GroupCommit } from '../../group-commit/group-commit.ts';
import type { StoreAnswer, StoreRequest, ThreadReply, ThreadRequest, WriterOptions } from './protocol.ts';

const MAX_UNCONFIRMED_BYTES = 64 * 1024 * 1024;
const MAX_GROUP_BYTES = 4 * 1024 * 1024;
/** One is carried out while the next is on its way to the thread. */
const MAX_IN_FLIGHT = 2;
/** So many go at once: else all that were answered together come together again, and the thread waits for them. */
const EAGER_REQUESTS = 32;

interface Pending {
  readonly resolve: (answers: readonly StoreAnswer[]) => void;
  readonly reject: (reason: Unavailable) => void;
}

/** A request as it waits, and room for what became of it. */
interface Asked {
  readonly text: string;
  answer?: StoreAnswer;
}

/**
 * The writing half: what is asked for at the same time shares one transaction and one fsync in a thread of its own,
 * which starts with the first request and is started anew should it die.
 */
export class ProfileWriter {
  readonly #options: WriterOptions;
  readonly #logger: Logger;
  readonly #groups: GroupCommit<Asked>;
  readonly #pending = new Map<number, Pending>();
  #thread: Worker | undefined;
  #lastId = 0;

  constructor(options: WriterOptions, logger: Logger) {
    this.#options = options;
    this.#logger = logger;
    this.#groups = new GroupCommit({
      maxInFlight: MAX_IN_FLIGHT,
      eagerRequests: EAGER_REQUESTS,
      maxUnconfirmedBytes: MAX_UNCONFIRMED_BYTES,
      maxGroupBytes: MAX_GROUP_BYTES,
      commit: (group) => this.#commit(group),
    });
  }

  /** Resolves when it is durable. Rejects with `Overloaded` and `InvalidInput` (nothing was taken), `Unavailable` (it is not known). */
  async ask(request: StoreRequest): Promise<StoreAnswer> {
    const asked: Asked = { text: JSON.stringify(request) };
    await this.#groups.add(asked, asked.text.length);
    const { answer } = asked;
    if (answer === undefined) throw new Unavailable('the thread gave no answer');
    if (answer.kind === 'failed') throw new InvalidInput(answer.error);
    return answer;
  }

  /** Waits for what is under way, then lets the thread go. */
  async close(): Promise<void> {
    await this.#groups.drained();
    const thread = this.#thread;
    if (!thread) return;
    const exited = new Promise((resolve) => thread.once('exit', resolve));
    this.#post(thread, { kind: 'close' });
    await exited;
  }

  async #commit(group: readonly Asked[]): Promise<void> {
    const answers = await new Promise<readonly StoreAnswer[]>((resolve, reject) => {
      const id = ++this.#lastId;
      this.#pending.set(id, { resolve, reject });
      this.#thread ??= this.#start();
      const requests = `[${group.map(({ text }) => text).join(',')}]`;
      this.#post(this.#thread, { kind: 'group', id, requests });
    });
    for (const [at, asked] of group.entries()) {
      const answer = answers[at];
      if (answer !== undefined) asked.answer = answer;
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
    thread.on('error', (error) => this.#logger.error({ file, error: error.message }, 'profile thread died'));
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
