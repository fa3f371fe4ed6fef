import { AsyncLocalStorage } from 'node:async_hooks';
import type { FromPack, HttpAnswer, ToPack } from './messages.ts';

/** Statuses whose answers have no body. */
const BODILESS = new Set([101, 204, 205, 304]);

/** `fetch` for the process of the pack: the request goes to the process that started this one. */
export class ForwardedFetch {
  readonly #tell: (message: FromPack) => void;
  readonly #job = new AsyncLocalStorage<number>();
  readonly #waiting = new Map<number, PromiseWithResolvers<HttpAnswer>>();
  #requests = 0;

  constructor(tell: (message: FromPack) => void) {
    this.#tell = tell;
  }

  /** What `work` fetches belongs to the job. */
  runAs<T>(job: number, work: () => Promise<T>): Promise<T> {
    return this.#job.run(job, work);
  }

  readonly fetch: typeof globalThis.fetch = async (input, init) => {
    const job = this.#job.getStore();
    if (job === undefined) throw new TypeError('a request outside of a job');
    const asked = new Request(input, init);
    const body = Buffer.from(await asked.arrayBuffer()).toString('base64');
    const request = ++this.#requests;
    const answered = Promise.withResolvers<HttpAnswer>();
    this.#waiting.set(request, answered);
    const sent = { method: asked.method, url: asked.url, headers: [...asked.headers], body };
    this.#tell({ op: 'request', job, request, sent });
    const answer = await answered.promise;
    const content = BODILESS.has(answer.status) ? null : Buffer.from(answer.body, 'base64');
    return new Response(content, { status: answer.status, headers: answer.headers.map(([...pair]) => pair) });
  };

  settle(message: Extract<ToPack, { op: 'answer' | 'unanswered' }>): void {
    const answered = this.#waiting.get(message.request);
    this.#waiting.delete(message.request);
    if (message.op === 'answer') answered?.resolve(message.answer);
    else answered?.reject(new TypeError('fetch failed'));
  }
}
