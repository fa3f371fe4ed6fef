import type { Socket } from 'node:net';
import { TributaryError } from '@tributary/core';
import { ResponseRefused, ResponseTooLarge } from '../failures.ts';

/** Checks received bytes and returns those that are passed to the driver now. Throws to close the connection. */
export type ResponseFilter = (chunk: Buffer) => Iterable<Buffer>;

/**
 * Filters received bytes before the driver sees them. Drivers trust their server: some allocate any length it announces,
 * and for a malformed message some throw out of a listener, or loop for ever. Where the filter or the driver throws, the
 * connection is closed with that error, and the process continues. A driver that calls `read` gets the unfiltered chunks.
 */
export function inspectResponses(socket: Socket, inspect: ResponseFilter): Socket {
  const emit = socket.emit.bind(socket);
  const emitInspected = (event: string, ...args: unknown[]): boolean => {
    const [chunk] = args;
    if (event !== 'data' || !Buffer.isBuffer(chunk)) return emit(event, ...args);
    try {
      for (const passed of inspect(chunk)) if (!socket.destroyed) emit('data', passed);
    } catch (error) {
      const isKnown = error instanceof TributaryError;
      socket.destroy(
        isKnown ? error : new ResponseRefused('the answer cannot be understood', { cause: error }),
      );
    }
    return true;
  };
  return Object.defineProperty(socket, 'emit', { value: emitInspected, writable: true, configurable: true });
}

/**
 * Closes a connection that receives more than `maxBytes` since the last write, whatever they are: interim responses, chunk
 * extensions, notices, pushes.
 */
export function limitBytes(socket: Socket, maxBytes: number): ResponseFilter {
  let written = 0;
  let read = 0;
  return (chunk) => {
    if (socket.bytesWritten !== written) {
      written = socket.bytesWritten;
      read = 0;
    }
    read += chunk.length;
    if (read > maxBytes) throw new ResponseTooLarge('too much was answered');
    return [chunk];
  };
}

/** Splits a stream of bytes into complete messages. */
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

  /** The first bytes, without consuming them; undefined while there are fewer. */
  peek(bytes: number): Buffer | undefined {
    if (this.#bytes < bytes) return undefined;
    const [first] = this.#chunks;
    if (first !== undefined && first.length >= bytes) return first.subarray(0, bytes);
    const all = Buffer.concat(this.#chunks);
    this.#chunks = [all];
    return all.subarray(0, bytes);
  }

  /** Consumes the first bytes; undefined while there are fewer. */
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
