import { MAX_CONCURRENCY } from '@tributary/core';
import { Agent, type Dispatcher } from 'undici';
import type { AbortLike } from '../client/deadlines.ts';
import { ANNOUNCED_STATUS } from '../egress/response-heads.ts';
import { ResponseTooLarge } from '../failures.ts';
import type { ConnectorContext } from '../kind.ts';
import { memoizeByObject } from '../settings.ts';
import { classifyFailure, EXCERPT_BYTES } from './response.ts';

/** An idle connection is kept this long, ms, unless the destination asks for less. */
const KEEP_ALIVE_MS = 10_000;

/** Bytes of one response with headers, interim responses and chunk framing; far above the bytes that are kept. */
const MAX_RESPONSE_BYTES = 256 * 1_024;

/** HTTP destinations whose unused connections are kept. */
const MAX_AGENTS = 1_000;

/** The parts of `ClientKind` that all HTTP connectors share. A failure costs one connection, never the client. */
export function httpClient(context: ConnectorContext, maxResponseBytes = MAX_RESPONSE_BYTES) {
  return {
    open: async () => openAgent(context, maxResponseBytes),
    maxClients: MAX_AGENTS,
    keepsClient: () => true,
    classifyFailure,
  };
}

/** The connections of one destination, through the egress guard. */
function openAgent({ egress, timeoutMs }: ConnectorContext, maxResponseBytes: number): Agent {
  return new Agent({
    connect: egress.connector(timeoutMs, maxResponseBytes),
    // One for each concurrent request to a destination; opened on demand.
    connections: MAX_CONCURRENCY,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // Slow headers and bodies are ended by the deadline of the call.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
}

/** A request with its body. */
export interface HttpRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT';
  readonly url: URL;
  /** Names and values alternating. */
  readonly headers: string[];
  readonly body?: string | Uint8Array;
}

/**
 * Sends one request and resolves to its response, with at most `keptBytes` of the body. Rejects without a status line: with
 * the signal's reason, the guard's refusal, or a network error. Redirects are not followed.
 */
export function sendRequest(
  dispatcher: Dispatcher,
  { url, method, headers, body }: HttpRequest,
  signal: AbortLike,
  keptBytes: number = EXCERPT_BYTES,
): Promise<RawResponse> {
  return new Promise((resolve, reject) => {
    const { origin, path } = targetOf(url);
    const sent = { origin, path, method, headers, body: body ?? null };
    dispatcher.dispatch(sent, new ResponseHandler(signal, keptBytes, { resolve, reject }));
  });
}

/** Memoized: the getters of `URL` compute their parts at each access. */
const targetOf = memoizeByObject((url: URL) => ({ origin: url.origin, path: url.pathname + url.search }));

/** A longer response is not read to its end: its connection is closed instead of reused. */
const MAX_READ_BYTES = 16 * 1_024;

const NOTHING = new Uint8Array();

/** A response, also one that broke off behind its status line. */
interface RawResponse {
  readonly status: number;
  readonly retryAfter: string | undefined;
  /** The received start of the body. */
  readonly start: Uint8Array;
  /** Whether `start` is the whole body. */
  readonly whole: boolean;
}

interface Waiting {
  resolve(response: RawResponse): void;
  reject(reason: unknown): void;
}

/**
 * Receives the response to one request without a stream: most responses are a status line alone, and a stream would cost
 * more than the rest of the request. Settles once, at the end of the response or when the signal is aborted. A received
 * status line counts, even if headers or body break off or exceed the deadline; callers that need the body check `whole`.
 */
class ResponseHandler implements Dispatcher.DispatchHandler {
  readonly #signal: AbortLike;
  readonly #keptBytes: number;
  readonly #waiting: Waiting;
  readonly #onAbort = () => {
    const { reason } = this.#signal;
    this.#fail(reason);
    if (reason !== undefined) this.#controller?.abort(reason);
  };
  #controller: Dispatcher.DispatchController | undefined;
  #status: number | undefined;
  /** The status of a response whose headers are incomplete. */
  #announced: number | undefined;
  #retryAfter: string | undefined;
  readonly #chunks: Uint8Array[] = [];
  #read = 0;

  constructor(signal: AbortLike, keptBytes: number, waiting: Waiting) {
    this.#signal = signal;
    this.#keptBytes = keptBytes;
    this.#waiting = waiting;
    if (signal.aborted) waiting.reject(signal.reason);
    else signal.addEventListener('abort', this.#onAbort);
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
    const tooMuch = new ResponseTooLarge('the answer is longer than what is read of one');
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
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.#status ??= this.#announced;
    if (this.#status === undefined) this.#waiting.reject(reason);
    else this.#end(false);
  }

  #end(whole: boolean): void {
    this.#signal.removeEventListener('abort', this.#onAbort);
    const start =
      this.#chunks.length === 0 ? NOTHING : Buffer.concat(this.#chunks).subarray(0, this.#keptBytes);
    const [status, retryAfter] = [this.#status ?? 0, this.#retryAfter];
    this.#waiting.resolve({ status, retryAfter, start, whole });
  }
}
