/** Headers that speak about the connection or the framing, which the HTTP client alone decides. */
const TRANSPORT = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Headers every message carries with one meaning. */
const OURS = new Set(['content-type', 'idempotency-key']);

/** Why a user may not set this header; undefined when they may. */
export function headerFault(name: string): string | undefined {
  const lower = name.toLowerCase();
  if (TRANSPORT.has(lower)) return 'must not be set: it belongs to the connection';
  if (OURS.has(lower) || lower.startsWith('webhook-'))
    return 'must not be set: every message carries its own';
  return undefined;
}
