import type { Socket } from 'node:net';
import { TributaryError } from '@tributary/core';
import { AnswerRefused, TooMuchAnswered } from '../failures.ts';

/** Looks at a piece of what came, and gives what the driver may have of it now. Throws to end the connection. */
export type Inspect = (chunk: Buffer) => Iterable<Buffer>;

/**
 * Looks at what comes on a connection before the driver that reads it does, whether the driver listens for data or reads.
 * Drivers trust their server: some wait for any length it announces, and some throw out of a listener, or never come
 * back, for a malformed message. Where `inspect` or the driver throws the connection ends with that error, and the
 * process goes on. A driver that reads is given each chunk as it came, whatever `inspect` gives.
 */
export function inspectAnswers(socket: Socket, inspect: Inspect): Socket {
  const emit = socket.emit.bind(socket);
  const emitInspected = (event: string, ...args: unknown[]): boolean => {
    const [chunk] = args;
    if (event !== 'data' || !Buffer.isBuffer(chunk)) return emit(event, ...args);
    try {
      for (const passed of inspect(chunk)) if (!socket.destroyed) emit('data', passed);
    } catch (error) {
      const isKnown = error instanceof TributaryError;
      socket.destroy(
        isKnown ? error : new AnswerRefused('the answer cannot be understood', { cause: error }),
      );
    }
    return true;
  };
  return Object.defineProperty(socket, 'emit', { value: emitInspected, writable: true, configurable: true });
}

/**
 * Ends a connection on which more than `maxBytes` came since something was last written: more than any honest answer,
 * however it is made up (interim answers, extensions of chunks, notices, pushes).
 */
export function boundedAnswers(socket: Socket, maxBytes: number): Inspect {
  let written = 0;
  let read = 0;
  return (chunk) => {
    if (socket.bytesWritten !== written) {
      written = socket.bytesWritten;
      read = 0;
    }
    read += chunk.length;
    if (read > maxBytes) throw new TooMuchAnswered('too much was answered');
    return [chunk];
  };
}

/** Whole messages out of a stream of bytes. */
export class MessageBuffer {
  #chunks: Buffer[] = [];
  #bytes = 0;

  add(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The first bytes, which stay; undefined while there are fewer. */
  peek(bytes: number): Buffer | undefined {
    if (this.#bytes < bytes) return undefined;
    const [first] = this.#chunks;
    if (first !== undefined && first.length >= bytes) return first.subarray(0, bytes);
    const all = Buffer.concat(this.#chunks);
    this.#chunks = [all];
    return all.subarray(0, bytes);
  }

  /** The same, and they are gone. */
  take(bytes: number): Buffer | undefined {
    const taken = this.peek(bytes);
    const [first] = this.#chunks;
    if (taken === undefined || first === undefined) return undefined;
    if (first.length === bytes) this.#chunks.shift();
    else this.#chunks[0] = first.subarray(bytes);
    this.#bytes -= bytes;
    return taken;
  }
}
