import type { Readable } from 'node:stream';
import { bodyTooLarge, invalidRequest } from '../errors/api-error.ts';

/** What is allocated at least once a body turns out to have a second chunk. */
const MIN_CAPACITY = 4 * 1024;

export interface ReadBodyOptions {
  readonly limit: number;
  /** `Content-Length`; undefined for a chunked body. */
  readonly expected: number | undefined;
  /** Asked before so many bytes are allocated in all; the error to refuse the body with, where they may not be. */
  readonly reserve: (bytes: number) => Error | undefined;
}

type Done = (error: Error | null, body?: Buffer) => void;

/** A body being read. */
export interface BodyReading {
  /** Ends the reading with an error; what still comes of the body is thrown away. Nothing once the reading is over. */
  stop(error: Error): void;
}

/**
 * Reads a body into one buffer, which grows with the bytes that came and not with what `Content-Length` announces. Every
 * byte is reserved before it is kept, and a body of one chunk, the case of most events, is not copied. Chunks of a few
 * bytes cost no more than what they hold, as they are copied together.
 */
export function readBody(payload: Readable, options: ReadBodyOptions, done: Done): BodyReading {
  const { limit, expected, reserve } = options;
  let body: Buffer | undefined;
  let length = 0;
  let isOver = false;

  function finish(error: Error | null, read?: Buffer): void {
    if (isOver) return;
    isOver = true;
    payload.removeListener('data', onData);
    payload.removeListener('end', onEnd);
    payload.removeListener('error', onError);
    body = undefined;
    done(error, read);
  }

  function stop(error: Error): void {
    finish(error);
    payload.resume();
  }

  /** Undefined once the chunk is kept; else the error to end the reading with. */
  function keep(chunk: Buffer): Error | undefined {
    const needed = length + chunk.length;
    if (needed > limit) return bodyTooLarge();
    if (body === undefined || needed > body.length) {
      const capacity = body === undefined ? needed : capacityFor(needed, expected ?? limit);
      const refusal = reserve(capacity);
      if (refusal !== undefined) return refusal;
      body = body === undefined ? chunk : grown(body, length, capacity);
    }
    if (length > 0) chunk.copy(body, length);
    length = needed;
    return undefined;
  }

  function onData(data: Buffer | string): void {
    const refusal = keep(typeof data === 'string' ? Buffer.from(data) : data);
    if (refusal !== undefined) stop(refusal);
  }

  function onEnd(): void {
    if (expected !== undefined && length !== expected)
      finish(invalidRequest({ path: '', message: 'the body is not as long as its content-length says' }));
    else finish(null, body === undefined ? Buffer.alloc(0) : body.subarray(0, length));
  }

  function onError(): void {
    finish(invalidRequest({ path: '', message: 'the request cannot be read' }));
  }

  payload.on('data', onData);
  payload.on('end', onEnd);
  payload.on('error', onError);
  payload.resume();
  return { stop };
}

/** Doubles, so that copying costs about what the body holds, and stops at the end of the body. */
function capacityFor(needed: number, end: number): number {
  return Math.max(needed, Math.min(2 * needed, end), Math.min(MIN_CAPACITY, end));
}

function grown(body: Buffer, length: number, capacity: number): Buffer {
  const larger = Buffer.allocUnsafeSlow(capacity);
  body.copy(larger, 0, 0, length);
  return larger;
}
