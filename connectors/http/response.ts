import type { DeliveryResult } from '@tributary/core';
import { errors } from 'undici';
import { classifyNetworkFailure } from '../failures.ts';

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
