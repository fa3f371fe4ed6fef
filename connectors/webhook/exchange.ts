import { type Dispatcher, request } from 'undici';
import { EXCERPT_BYTES } from './excerpt.ts';
import type { WebhookMessage } from './message.ts';

/** Bytes of an answer that are read at most so that its connection can be used again; a longer one costs it. */
const MAX_READ_BYTES = 16 * 1_024;

/** An answer as it came. */
export interface RawAnswer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  /** The first `EXCERPT_BYTES` of the body at most, or what came of them. */
  readonly start: Uint8Array;
}

/**
 * Sends one request and waits for its answer. Rejects when no status line came: with the signal's reason, the guard's
 * refusal, or an error of the network. Redirects are answers like any other.
 */
export async function exchange(
  dispatcher: Dispatcher,
  url: URL,
  message: WebhookMessage,
  signal: AbortSignal,
): Promise<RawAnswer> {
  const { statusCode, headers, body } = await request(url, {
    dispatcher,
    method: 'POST',
    headers: message.headers,
    body: message.body,
    signal,
  });
  const retryAfter = headers['retry-after'];
  return {
    status: statusCode,
    retryAfter: Array.isArray(retryAfter) ? retryAfter[0] : retryAfter,
    start: await readStart(body),
  };
}

async function readStart(body: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let read = 0;
  try {
    for await (const chunk of body) {
      if (read < EXCERPT_BYTES) chunks.push(chunk);
      read += chunk.length;
      if (read > MAX_READ_BYTES) break;
    }
  } catch {
    // The status line has said what became of the deliveries. A body that breaks off, or drips on past the
    // deadline, cannot take that back; it only cuts the excerpt short.
  }
  return Buffer.concat(chunks).subarray(0, EXCERPT_BYTES);
}
