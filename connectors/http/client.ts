import { MAX_CONCURRENCY } from '@tributary/core';
import { Agent, type Dispatcher } from 'undici';
import type { Ending } from '../client/deadlines.ts';
import { ANNOUNCED_STATUS } from '../egress/response-heads.ts';
import { TooMuchAnswered } from '../failures.ts';
import type { ConnectorContext } from '../kind.ts';
import { oncePer } from '../settings.ts';
import { EXCERPT_BYTES, verdictOfFailure } from './response.ts';

/** An idle connection is kept this long, ms, unless the destination says less. */
const KEEP_ALIVE_MS = 10_000;

/** Of an answer, with its headers, the interim answers before it and what frames its chunks; far above what is kept. */
const MAX_ANSWER_BYTES = 256 * 1_024;

/** Destinations that speak HTTP and keep their connections although nobody uses them. */
const MAX_AGENTS = 1_000;

/** What is the same for every kind that is spoken to over HTTP: a failure costs a connection, never all of them. */
export function overHttp(context: ConnectorContext, maxAnswerBytes = MAX_ANSWER_BYTES) {
  return {
    open: async () => openAgent(context, maxAnswerBytes),
    maxClients: MAX_AGENTS,
    outlives: () => true,
    verdictOfFailure,
  };
}

/** The connections of one destination, through the egress guard. */
function openAgent({ egress, timeoutMs }: ConnectorContext, maxAnswerBytes: number): Agent {
  return new Agent({
    connect: egress.connector(timeoutMs, maxAnswerBytes),
    // One for each of the calls that are made to a destination at a time; they are opened as they are needed.
    connections: MAX_CONCURRENCY,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // The deadline of the whole call ends slow headers and slow bodies.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
}

/** One request. */
export interface HttpRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT';
  readonly url: URL;
  /** Name and value in turn. */
  readonly headers: string[];
  readonly body?: string | Uint8Array;
}

/**
 * Sends one request and waits for its answer, of whose body it keeps `keptBytes` at most. Rejects when no status line
 * came: with the signal's reason, the guard's refusal, or an error of the network. Redirects are answers like any other.
 */
export function exchange(
  dispatcher: Dispatcher,
  { url, method, headers, body }: HttpRequest,
  signal: Ending,
  keptBytes: number = EXCERPT_BYTES,
): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const { origin, path } = targetOf(url);
    const sent = { origin, path, method, headers, body: body ?? null };
    dispatcher.dispatch(sent, new Answering(signal, keptBytes, { resolve, reject }));
  });
}

/** The parts of a URL are worked out anew whenever they are asked for, and that of a destination stays the same. */
const targetOf = oncePer((url: URL) => ({ origin: url.origin, path: url.pathname + url.search }));

/** Bytes of an answer that are read at most so that its connection can be used again; a longer one costs it. */
const MAX_READ_BYTES = 16 * 1_024;

const NOTHING = new Uint8Array();

/** An answer as it came. */
interface RawAnswer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  /** The body up to where it was read, or what came of it. */
  readonly start: Uint8Array;
  /** True when `start` is the whole body. */
  readonly whole: boolean;
}

interface Waiting {
  resolve(answer: RawAnswer): void;
  reject(reason: unknown): void;
}

/**
 * Takes in the answer to one request as it comes, without a stream: most answers are a status line and nothing else,
 * and a stream costs more than all the rest of them. It settles once, at the end of the answer or when the signal
 * fires. A status line that has come stands: headers or a body that break off, or drip on past the deadline, cannot take
 * that back; whoever needs all of it asks whether it is whole.
 */
class Answering implements Dispatcher.DispatchHandler {
  readonly #signal: Ending;
  readonly #keptBytes: number;
  readonly #waiting: Waiting;
  readonly #calledOff = () => {
    const { reason } = this.#signal;
    this.#fail(reason);
    if (reason !== undefined) this.#controller?.abort(reason);
  };
  #controller: Dispatcher.DispatchController | undefined;
  #status: number | undefined;
  /** Of a status line whose headers did not all come. */
  #announced: number | undefined;
  #retryAfter: string | undefined;
  readonly #chunks: Uint8Array[] = [];
  #read = 0;

  constructor(signal: Ending, keptBytes: number, waiting: Waiting) {
    this.#signal = signal;
    this.#keptBytes = keptBytes;
    this.#waiting = waiting;
    if (signal.aborted) waiting.reject(signal.reason);
    else signal.addEventListener('abort', this.#calledOff);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    const { reason } = this.#signal;
    if (reason !== undefined) controller.abort(reason);
    this.#controller = controller;
  }

  onResponseStart(
    _: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (status < 200) {
      this.#announced = Number(headers[ANNOUNCED_STATUS]) || undefined;
      return;
    }
    const { 'retry-after': retryAfter } = headers;
    this.#status = status;
    this.#retryAfter = Array.isArray(retryAfter) ? retryAfter[0] : retryAfter;
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    if (this.#read < this.#keptBytes) this.#chunks.push(chunk);
    this.#read += chunk.length;
    if (this.#read <= Math.max(this.#keptBytes, MAX_READ_BYTES)) return;
    const tooMuch = new TooMuchAnswered('the answer is longer than what is read of one');
    this.#fail(tooMuch);
    controller.abort(tooMuch);
  }

  onResponseEnd(): void {
    this.#end(this.#read <= this.#keptBytes);
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.#fail(error);
  }

  #fail(reason: unknown): void {
    this.#signal.removeEventListener('abort', this.#calledOff);
    this.#status ??= this.#announced;
    if (this.#status === undefined) this.#waiting.reject(reason);
    else this.#end(false);
  }

  #end(whole: boolean): void {
    this.#signal.removeEventListener('abort', this.#calledOff);
    const start =
      this.#chunks.length === 0 ? NOTHING : Buffer.concat(this.#chunks).subarray(0, this.#keptBytes);
    const [status, retryAfter] = [this.#status ?? 0, this.#retryAfter];
    this.#waiting.resolve({ status, retryAfter, start, whole });
  }
}
