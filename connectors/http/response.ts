import type { DeliveryResult } from '@tributary/core';
import { errors } from 'undici';
import { verdictOfNetworkFailure } from '../failures.ts';

/** What a destination answered. */
export interface HttpAnswer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  /** The start of the body, fit to be shown; empty when there was none. */
  readonly excerpt: string;
}

const PASSING_STATUSES = new Set([408, 425, 429]);
const STATUSES_THAT_SAY_WHEN = new Set([429, 503]);

/** What an answer means for the deliveries that were sent. `now` is epoch ms. */
export function verdictOfAnswer(answer: HttpAnswer, now: number): DeliveryResult {
  const { status } = answer;
  const shown = { status, ...(answer.excerpt === '' ? {} : { response: answer.excerpt }) };
  if (status >= 200 && status < 300) return { outcome: 'delivered', ...shown };
  if (PASSING_STATUSES.has(status) || (status >= 500 && status < 600)) {
    const says = STATUSES_THAT_SAY_WHEN.has(status) ? answer.retryAfter : undefined;
    const afterMs = says === undefined ? undefined : parseRetryAfter(says, now);
    const after = afterMs === undefined ? {} : { afterMs };
    return { outcome: 'retry', reason: `answered ${status}`, ...shown, ...after };
  }
  const reason = status < 400 ? 'redirects are not followed' : `answered ${status}`;
  return { outcome: 'dead', reason, ...shown };
}

/**
 * Refusals of the place as it is set up: its address (404, 405, 410), what lets one in (401, 402, 403, 407), the
 * format (415). No other body would fare better there.
 */
const STATUSES_ABOUT_THE_PLACE = new Set([401, 402, 403, 404, 405, 407, 410, 415]);

/**
 * True for a refusal that some of the deliveries in a batch may have caused while others are fine: 400, 413, 422, and
 * 500, with which a receiver answers what it stumbles over. Other 5xx speak of the place.
 */
export function mayBlameSome({ outcome, status = 0 }: DeliveryResult): boolean {
  if (outcome === 'retry') return status === 500;
  return outcome === 'dead' && status >= 400 && status < 500 && !STATUSES_ABOUT_THE_PLACE.has(status);
}

/** What a failed call means: no answer came. Undefined for an error that is not the network's. */
export function verdictOfFailure(error: unknown): DeliveryResult | undefined {
  if (error instanceof errors.HTTPParserError) return { outcome: 'retry', reason: 'the answer is not HTTP' };
  return verdictOfNetworkFailure(error);
}

/**
 * What a `Retry-After` header asks for, ms from `now` (epoch ms): whole seconds or an HTTP date, never negative.
 * Undefined for anything else.
 */
export function parseRetryAfter(header: string, now: number): number | undefined {
  const text = header.trim();
  if (/^\d{1,10}$/.test(text)) return Number(text) * 1_000;
  if (!/^[A-Z][a-z]{2,8}[, ]/.test(text)) return undefined;
  // Of the three forms of an HTTP date one names no zone; all are GMT.
  const date = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

/** Bytes of an answer that are kept to be shown. */
export const EXCERPT_BYTES = 1_024;

const MASK = '***';
/** Shorter parts of a header value are words rather than credentials. */
const MIN_PART = 8;

/**
 * The start of an answer as people may see it: text, without control characters, and without the secret settings that
 * a destination echoed. `bytes` is the start of the body; a secret cut off at its end goes too.
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

/** What of a destination's settings must not be shown. */
export interface SecretSettings {
  readonly secret: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
}

/** Every text that must not be shown, longest first: the secret, header values, and the credentials inside those. */
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
