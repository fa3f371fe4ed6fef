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
