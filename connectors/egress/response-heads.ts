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

/** Bytes of the head of one response: status line and headers. */
const MAX_HEAD_BYTES = 128 * 1_024;
/** Longer heads are rewritten with the headers that matter: HTTP clients refuse heads above 16 KiB. */
const PLAIN_HEAD_BYTES = 8 * 1_024;
/** Longer header lines are dropped from a rewritten head. */
const MAX_KEPT_LINE = 1_024;

/** The header of the interim response that announces a received status line to the HTTP client of this process. */
export const ANNOUNCED_STATUS = 'tributary-status';

const STATUS_LINE = /^HTTP\/[0-9](?:\.[0-9])? +([1-9][0-9][0-9])(?: [^\n]*)?\r?\n/;
const HEADER = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*([\t -~\x80-\xff]*?)[ \t]*$/;
/** Headers about the connection, dropped from a rewritten head. */
const CONNECTION = new Set(['connection', 'keep-alive', 'upgrade', 'proxy-connection', 'trailer']);

/**
 * Normalizes the heads of HTTP responses for HTTP clients. The status line decides about a delivery, so an event that a
 * receiver accepted must not be sent again for a detail of its headers; but clients fail at `100 Continue`, at heads above
 * 16 KiB, at a repeated `Content-Length`, and at any malformed line.
 *
 * - Interim responses (1xx) are dropped.
 * - A well-formed head passes unchanged. Any other is rewritten: malformed and very long lines are dropped; of several
 *   equal lengths one stays; contradictory framing is dropped, so that the body ends with the connection. Such a
 *   connection is closed after the response, as its peer may see another end of the body.
 * - A status line whose headers are incomplete is announced by an interim response of our own (`ANNOUNCED_STATUS`), so
 *   that it counts even if the headers break off or take too long.
 * - Data that is not HTTP passes, and the client refuses it; a head above 128 KiB ends the connection.
 *
 * One response for each request: the next head is expected after the next write to the socket.
 */
export function normalizeHeads(socket: Socket): ResponseFilter {
  let isInHead = true;
  let isAnnounced = false;
  let written = socket.bytesWritten;
  let buffered: Buffer = Buffer.alloc(0);
  let length = 0;

  const buffer = (chunk: Buffer) => {
    if (length === 0) buffered = chunk;
    else {
      // Doubles, so that a head received byte by byte is copied a few times and not once a byte.
      if (buffered.length < length + chunk.length) {
        const larger = Buffer.allocUnsafe(2 * (length + chunk.length));
        buffered.copy(larger, 0, 0, length);
        buffered = larger;
      }
      chunk.copy(buffered, length);
    }
    length += chunk.length;
  };

  return function* inspect(chunk) {
    if (socket.bytesWritten !== written) {
      written = socket.bytesWritten;
      isInHead = true;
      isAnnounced = false;
    }
    if (!isInHead) {
      yield chunk;
      return;
    }
    if (length === 0 && plainEnd(chunk) !== undefined) {
      isInHead = false;
      yield chunk;
      return;
    }
    let searchedTo = Math.max(0, length - 3);
    buffer(chunk);
    while (length > 0) {
      const came = buffered.subarray(0, length);
      const end = headEnd(came, searchedTo);
      if (end === undefined) {
        if (length > 5 && !came.subarray(0, 5).equals(HTTP)) break;
        if (!isAnnounced) {
          const status = statusIn(came.toString('latin1', 0, MAX_STATUS_LINE));
          if (status !== undefined && status >= 200) {
            isAnnounced = true;
            yield Buffer.from(`HTTP/1.1 103 Early Hints\r\n${ANNOUNCED_STATUS}: ${status}\r\n\r\n`);
          }
        }
        if (length > MAX_HEAD_BYTES) throw new ResponseTooLarge('the headers of the answer are too long');
        return;
      }
      const head = came.toString('latin1', 0, end);
      const status = statusIn(head);
      buffered = came.subarray(end);
      length -= end;
      searchedTo = 0;
      if (status === undefined) {
        yield came.subarray(0, end);
        break;
      }
      if (status < 200) continue;
      isInHead = false;
      const isPlain = plainEnd(came) === end;
      yield isPlain ? came.subarray(0, end) : Buffer.from(plainHead(status, head), 'latin1');
      break;
    }
    isInHead &&= length === 0;
    if (length > 0) yield buffered.subarray(0, length);
    length = 0;
  };
}

/** Applies a filter for a client that calls `read` on the socket instead of listening for `data`. */
export function inspectReads(socket: Socket, inspect: ResponseFilter): Socket {
  const read = socket.read.bind(socket);
  const readInspected = (): unknown => {
    while (true) {
      const chunk: unknown = read();
      if (!Buffer.isBuffer(chunk)) return chunk;
      try {
        const passed = [...inspect(chunk)];
        const [first] = passed;
        if (first !== undefined) return passed.length === 1 ? first : Buffer.concat(passed);
      } catch (error) {
        socket.destroy(error instanceof Error ? error : new Error('the answer cannot be read'));
        return null;
      }
    }
  };
  return Object.defineProperty(socket, 'read', { value: readInspected, writable: true, configurable: true });
}

const HTTP = Buffer.from('HTTP/');
/** The bytes of a head that are searched for the status line, whose reason phrase may be long. */
const MAX_STATUS_LINE = 16 * 1_024;

/** The offset behind the empty line that ends a head. A line may end with a line feed alone. */
function headEnd(came: Buffer, from: number): number | undefined {
  for (let at = came.indexOf(0x0a, from); at !== -1; at = came.indexOf(0x0a, at + 1)) {
    const next = came[at + 1] === 0x0d ? at + 2 : at + 1;
    if (came[next] === 0x0a) return next + 1;
  }
  return undefined;
}

function statusIn(head: string): number | undefined {
  const status = STATUS_LINE.exec(head)?.[1];
  return status === undefined ? undefined : Number(status);
}

/**
 * A head that any parser accepts: a final HTTP/1.1 response with well-formed lines. A name and a value end at one character each,
 * so a head is read once.
 */
const PLAIN_HEAD =
  /^HTTP\/1\.1 [2-9][0-9][0-9][\t -~\x80-\xff]*\r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*\r\n)*\r\n/;
const FRAMING = /\r\n(?:content-length|transfer-encoding):[^\r]*/gi;
const GOOD_FRAMING = /^\r\n(?:content-length: *[0-9]{1,15}|transfer-encoding:[\t ]*chunked[\t ]*)$/i;
const LENGTH = /^[0-9]{1,15}$/;

/** The end of such a head, not long, with at most one length or encoding. Undefined for any other head and for an incomplete one. */
function plainEnd(came: Buffer): number | undefined {
  const [head] = PLAIN_HEAD.exec(came.toString('latin1', 0, PLAIN_HEAD_BYTES)) ?? [];
  const framing = head?.match(FRAMING) ?? [];
  return framing.length <= 1 && framing.every((line) => GOOD_FRAMING.test(line)) ? head?.length : undefined;
}

/** A rewritten head, after which the connection closes. */
function plainHead(status: number, head: string): string {
  const lengths = new Set<string>();
  const encodings: string[] = [];
  const kept: string[] = [];
  let bytes = 0;
  for (const line of head.split(/\r?\n/).slice(1)) {
    const [, name = '', value = ''] = HEADER.exec(line) ?? [];
    const lower = name.toLowerCase();
    if (lower === 'content-length') for (const part of value.split(',')) lengths.add(part.trim());
    else if (lower === 'transfer-encoding')
      encodings.push(...value.split(',').map((part) => part.trim().toLowerCase()));
    else if (lower !== '' && !CONNECTION.has(lower) && line.length <= MAX_KEPT_LINE) {
      bytes += line.length;
      if (bytes <= PLAIN_HEAD_BYTES) kept.push(`${name}: ${value}\r\n`);
    }
  }
  const [length = ''] = lengths;
  const isOfLength = encodings.length === 0 && lengths.size === 1 && LENGTH.test(length);
  if (encodings.length === 1 && encodings[0] === 'chunked') kept.push('transfer-encoding: chunked\r\n');
  else if (isOfLength) kept.push(`content-length: ${length}\r\n`);
  return `HTTP/1.1 ${status} \r\n${kept.join('')}connection: close\r\n\r\n`;
}
