import { canonicalTime } from '@tributary/core';

/** With its zone: without one nobody knows which moment a text means. */
const ZONED = /:\d{2}.*(?:[Zz]|[+-]\d{2}(?::?\d{2})?)$/;

/** Past it a time needs more than four digits for its year. */
const LATEST = Date.parse('9999-12-31T23:59:59.999Z');
const EARLIEST = Date.parse('0001-01-01T00:00:00.000Z');

/** By how much an event may lie behind its sending, ms. Beyond it `sent_at` is no time of sending, such as the zero of Go. */
const MAX_AHEAD = 24 * 60 * 60 * 1000;

/**
 * When an event happened by the server's clock: `received_at - (sent_at - original)`. The client's clock may be wrong,
 * but it is as wrong when it sends as it was when the event happened. Undefined where the client did not say both as
 * ISO 8601 times with their zone, or one of them cannot be what it says; then its word stands.
 */
export function correctedTime(original: unknown, sentAt: unknown, receivedAt: string): string | undefined {
  const happened = momentOf(original);
  const sent = momentOf(sentAt);
  if (happened === undefined || sent === undefined || happened - sent > MAX_AHEAD) return undefined;
  const corrected = Date.parse(receivedAt) - (sent - happened);
  return corrected >= EARLIEST && corrected <= LATEST ? new Date(corrected).toISOString() : undefined;
}

/** Epoch ms. */
function momentOf(text: unknown): number | undefined {
  if (typeof text !== 'string' || !ZONED.test(text)) return undefined;
  const time = canonicalTime(text);
  return time === undefined ? undefined : Date.parse(time);
}
