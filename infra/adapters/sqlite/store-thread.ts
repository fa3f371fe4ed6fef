import { Worker } from 'node:worker_threads';
import { messageOf, Unavailable } from '@tributary/core/primitives';

/** What the thread receives. It ends itself after `close`. */
export type ThreadRequest<Request> =
  | { readonly kind: 'request'; readonly id: number; readonly request: Request }
  | { readonly kind: 'close' };

/** What it answers. */
export type ThreadReply<Result> =
  | { readonly kind: 'done'; readonly id: number; readonly result: Result }
  /** Whether the request is durable is unknown. */
  | { readonly kind: 'failed'; readonly id: number; readonly error: string }
  /** An error to be logged: no request failed. */
  | { readonly kind: 'noted'; readonly error: string };

export interface StoreThreadOptions {
  readonly program: URL;
  readonly workerData: unknown;
  /** The thread died of this error. */
  readonly onDied: (error: Error) => void;
  readonly onNoted?: (error: string) => void;
}

/** A thread that waits for the disk in place of the caller. It starts with the first request, and again after it died. */
export class StoreThread<Request, Result> {
  readonly #options: StoreThreadOptions;
  readonly #pending = new Map<number, PromiseWithResolvers<Result>>();
  #thread: Worker | undefined;
  #lastId = 0;

  constructor(options: StoreThreadOptions) {
    this.#options = options;
  }

  /** Rejects with `Unavailable`. */
  async ask(request: Request): Promise<Result> {
    const thread = this.#started();
    const id = ++this.#lastId;
    const pending = Promise.withResolvers<Result>();
    this.#pending.set(id, pending);
    thread.postMessage({ kind: 'request', id, request } satisfies ThreadRequest<Request>);
    return pending.promise;
  }

  /** Waits until the thread has ended. */
  async close(): Promise<void> {
    const thread = this.#thread;
    if (thread === undefined) return;
    const exited = new Promise((resolve) => thread.once('exit', resolve));
    thread.postMessage({ kind: 'close' } satisfies ThreadRequest<Request>);
    await exited;
  }

  #started(): Worker {
    try {
      this.#thread ??= this.#start();
      return this.#thread;
    } catch (error) {
      throw new Unavailable(`no thread could be started: ${messageOf(error)}`, { cause: error });
    }
  }

  #start(): Worker {
    const { program, workerData, onDied } = this.#options;
    const thread = new Worker(program, { workerData, execArgv: ['--report-exclude-env'] });
    thread.on('message', (reply: ThreadReply<Result>) => this.#onReply(reply));
    thread.on('error', onDied);
    thread.on('exit', () => {
      if (this.#thread === thread) this.#thread = undefined;
      for (const pending of this.#pending.values()) pending.reject(new Unavailable('the thread ended'));
      this.#pending.clear();
    });
    return thread;
  }

  #onReply(reply: ThreadReply<Result>): void {
    if (reply.kind === 'noted') {
      this.#options.onNoted?.(reply.error);
      return;
    }
    const pending = this.#pending.get(reply.id);
    this.#pending.delete(reply.id);
    if (reply.kind === 'done') pending?.resolve(reply.result);
    else pending?.reject(new Unavailable(reply.error));
  }
}
