import { type Clock, type DeliveryResult, MAX_CONCURRENCY } from '@tributary/core';
import { Agent, type Dispatcher, errors } from 'undici';
import type { ConnectorCall } from '../client/client-connector.ts';
import type { AbortLike } from '../client/deadlines.ts';
import { ANNOUNCED_STATUS } from '../egress/response-heads.ts';
import { classifyNetworkFailure, ResponseTooLarge } from '../failures.ts';
import type { ConnectorContext } from '../kind.ts';
import { memoizeByObject } from '../settings.ts';

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
export function openAgent({ egress, timeoutMs }: ConnectorContext, maxResponseBytes: number): Agent {
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
  readonly method: Dispatcher.HttpMethod;
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
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly retryAfter: string | undefined;
  readonly location: string | undefined;
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
  #headers: RawResponse['headers'] = {};
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

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: RawResponse['headers']): void {
    if (status < 200) {
      this.#announced = Number(headers[ANNOUNCED_STATUS]) || undefined;
      return;
    }
    this.#status = status;
    this.#headers = headers;
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
    const headers = this.#headers;
    const [retryAfter] = [headers['retry-after']].flat();
    const [location] = [headers.location].flat();
    this.#waiting.resolve({ status: this.#status ?? 0, headers, retryAfter, location, start, whole });
  }
}

interface ResultOptions<Read> {
  /** Texts to mask in the excerpt. */
  readonly secrets: readonly string[];
  readonly clock: Clock;
  readonly keptBytes?: number;
  /** The result of a response whose body counts; undefined where its status does. */
  read?(response: RawResponse): Read | DeliveryResult | undefined;
}

/** Sends a request, and classifies its response or the failure. */
export async function resultOf<Read = never>(
  agent: Agent,
  compose: () => HttpRequest,
  { deadline, failed }: Pick<ConnectorCall, 'deadline' | 'failed'>,
  { secrets, clock, keptBytes, read }: ResultOptions<Read>,
): Promise<Read | DeliveryResult> {
  try {
    deadline.throwIfAborted();
    const response = await sendRequest(agent, compose(), deadline, keptBytes);
    const { status, retryAfter, start } = response;
    const excerpt = excerptOf(start.subarray(0, EXCERPT_BYTES), secrets);
    return read?.(response) ?? classifyResponse({ status, retryAfter, excerpt }, clock());
  } catch (error) {
    return failed(error);
  }
}

/** The response of a destination. */
export interface HttpResponse {
  readonly status: number;
  readonly retryAfter: string | undefined;
  /** The start of the body with secrets masked; empty without a body. */
  readonly excerpt: string;
}

const RETRYABLE_STATUSES = new Set([408, 425]);
const TOO_MANY_REQUESTS = 429;
/** With a `Retry-After` these ask for fewer requests; 503 without one is a failure. */
const STATUSES_ABOUT_THE_RATE = new Set([TOO_MANY_REQUESTS, 503]);

/** The result of the deliveries of a request, from its response. `now` is epoch ms. */
export function classifyResponse(response: HttpResponse, now: number): DeliveryResult {
  const { status } = response;
  const shown = { status, ...(response.excerpt === '' ? {} : { response: response.excerpt }) };
  if (status >= 200 && status < 300) return { outcome: 'delivered', ...shown };
  const says = STATUSES_ABOUT_THE_RATE.has(status) ? response.retryAfter : undefined;
  const afterMs = says === undefined ? undefined : parseRetryAfter(says, now);
  const retry = { outcome: 'retry', reason: `answered ${status}`, ...shown } as const;
  if (afterMs !== undefined) return { ...retry, throttled: true, afterMs };
  if (status === TOO_MANY_REQUESTS) return { ...retry, throttled: true };
  if (RETRYABLE_STATUSES.has(status) || (status >= 500 && status < 600)) return retry;
  const reason = status < 400 ? 'redirects are not followed' : `answered ${status}`;
  return { outcome: 'dead', reason, ...shown };
}

/**
 * Refusals that no other body would change: of the URL (404, 405, 410), of the credentials (401, 402, 403, 407), of the
 * content type (415).
 */
const STATUSES_ABOUT_THE_DESTINATION = new Set([401, 402, 403, 404, 405, 407, 410, 415]);

/**
 * Whether some deliveries of a batch may have caused a refusal while others are fine: 400, 413, 422 and the like, and 500,
 * which receivers return for an event they cannot handle. Other 5xx are about the destination.
 */
export function mayConcernSome({ outcome, status = 0 }: DeliveryResult): boolean {
  if (outcome === 'retry') return status === 500;
  return outcome === 'dead' && status >= 400 && status < 500 && !STATUSES_ABOUT_THE_DESTINATION.has(status);
}

/** The result of a request without a response. Undefined for an error that is not a network error. */
export function classifyFailure(error: unknown): DeliveryResult | undefined {
  if (error instanceof errors.HTTPParserError) return { outcome: 'retry', reason: 'the answer is not HTTP' };
  return classifyNetworkFailure(error);
}

/**
 * The delay of a `Retry-After` header, ms from `now` (epoch ms), never negative. Undefined for a value that is neither whole
 * seconds nor an HTTP date.
 */
export function parseRetryAfter(header: string, now: number): number | undefined {
  const text = header.trim();
  if (/^\d{1,10}$/.test(text)) return Number(text) * 1_000;
  if (!/^[A-Z][a-z]{2,8}[, ]/.test(text)) return undefined;
  // One of the three forms of an HTTP date has no time zone; all are GMT.
  const date = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

/** Bytes of a response body that are kept to be shown. */
export const EXCERPT_BYTES = 1_024;

const MASK = '***';
/** Shorter parts of a header value are taken for words, not credentials. */
const MIN_PART = 8;

/**
 * The start of a response body for display: text without control characters, and with echoed secrets masked, also a secret
 * that is cut off at the end of `bytes`.
 */
export function excerptOf(bytes: Uint8Array, secrets: readonly string[]): string {
  if (bytes.length === 0) return '';
  const text = new TextDecoder().decode(bytes.subarray(0, EXCERPT_BYTES)).replace(/\uFFFD+$/, '');
  const masked = secrets.reduce((rest, secret) => rest.replaceAll(secret, MASK), text);
  return withoutCutSecret(masked, secrets)
    .replace(/[^\P{C}\t\n]/gu, '')
    .trim();
}

function withoutCutSecret(text: string, secrets: readonly string[]): string {
  const cuts = secrets.map((secret) => {
    for (let length = Math.min(secret.length - 1, text.length); length >= 4; length--) {
      if (text.endsWith(secret.slice(0, length))) return length;
    }
    return 0;
  });
  const cut = Math.max(0, ...cuts);
  return cut === 0 ? text : text.slice(0, -cut) + MASK;
}

/** The secret settings of an HTTP destination. */
interface SecretSettings {
  readonly secret: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
}

/** All texts to mask, longest first: the secret, header values, and the credentials inside these. */
export function secretTexts(settings: SecretSettings): readonly string[] {
  const texts = new Set(settings.secret === '' ? [] : [settings.secret]);
  for (const [, value] of settings.headers) {
    const parts = value.split(/[\s,;="]+/).filter((part) => part.length >= MIN_PART);
    for (const text of [value, ...parts]) {
      if (text.length >= 4) texts.add(text).add(JSON.stringify(text).slice(1, -1));
    }
  }
  return [...texts].sort((a, b) => b.length - a.length);
}
