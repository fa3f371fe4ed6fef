/** With its zone: without one nobody knows which moment a text means. */
const ZONED = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:[Zz]|[+-]\d{2}:?\d{2})$/;

/** Past it a time needs more than four digits for its year. */
const LATEST = Date.parse('9999-12-31T23:59:59.999Z');
const EARLIEST = Date.parse('0001-01-01T00:00:00.000Z');

/**
 * When an event happened by the server's clock: `received_at - (sent_at - original)`. The client's clock may be wrong,
 * but it is as wrong when it sends as it was when the event happened. Undefined where the client did not say both as
 * ISO 8601 times with their zone; then its word stands.
 */
export function correctedTime(original: unknown, sentAt: unknown, receivedAt: string): string | undefined {
  const happened = momentOf(original);
  const sent = momentOf(sentAt);
  if (happened === undefined || sent === undefined) return undefined;
  const corrected = Date.parse(receivedAt) - (sent - happened);
  return corrected >= EARLIEST && corrected <= LATEST ? new Date(corrected).toISOString() : undefined;
}

/** Epoch ms. */
function momentOf(text: unknown): number | undefined {
  if (typeof text !== 'string' || !ZONED.test(text)) return undefined;
  const moment = Date.parse(text);
  return Number.isNaN(moment) ? undefined : moment;
}
