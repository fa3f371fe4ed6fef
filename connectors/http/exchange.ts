import { type Dispatcher, request } from 'undici';
import { EXCERPT_BYTES } from './excerpt.ts';

/** Bytes of an answer that are read at most so that its connection can be used again; a longer one costs it. */
const MAX_READ_BYTES = 16 * 1_024;

/** One request. */
export interface HttpRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT';
  readonly url: URL;
  /** Name and value in turn. */
  readonly headers: string[];
  readonly body?: string;
}

/** An answer as it came. */
export interface RawAnswer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  /** The body up to where it was read, or what came of it. */
  readonly start: Uint8Array;
  /** True when `start` is the whole body. */
  readonly whole: boolean;
}

/**
 * Sends one request and waits for its answer, of whose body it keeps `keptBytes` at most. Rejects when no status line
 * came: with the signal's reason, the guard's refusal, or an error of the network. Redirects are answers like any other.
 */
export async function exchange(
  dispatcher: Dispatcher,
  { url, ...sent }: HttpRequest,
  signal: AbortSignal,
  keptBytes: number = EXCERPT_BYTES,
): Promise<RawAnswer> {
  const { statusCode, headers, body } = await request(url, { dispatcher, ...sent, signal });
  const retryAfter = headers['retry-after'];
  return {
    status: statusCode,
    retryAfter: Array.isArray(retryAfter) ? retryAfter[0] : retryAfter,
    ...(await readStart(body, keptBytes)),
  };
}

async function readStart(body: AsyncIterable<Uint8Array>, keptBytes: number) {
  const chunks: Uint8Array[] = [];
  let read = 0;
  let ended = false;
  try {
    for await (const chunk of body) {
      if (read < keptBytes) chunks.push(chunk);
      read += chunk.length;
      if (read > Math.max(keptBytes, MAX_READ_BYTES)) break;
    }
    ended = true;
  } catch {
    // The status line has come. A body that breaks off, or drips on past the deadline, cannot take that back; whoever
    // needs all of it asks whether it is whole.
  }
  return { start: Buffer.concat(chunks).subarray(0, keptBytes), whole: ended && read <= keptBytes };
}
