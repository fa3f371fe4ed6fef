import type { Socket } from 'node:net';
import { ResponseTooLarge, type Stopped } from '../failures.ts';
import type { EgressGuard, EgressTarget } from './guard.ts';

/**
 * Bytes that a connection may receive within a minute: far more than legitimate responses need. Drivers buffer a response
 * until it is complete.
 */
const MAX_BYTES_A_MINUTE = 16 * 1_024 * 1_024;
/** Interval of checks, ms: bytes received meanwhile may exceed the limit. */
const CHECK_MS = 100;
const MINUTE_MS = 60_000;
/** Connections of one client at a time. No topic has its leaders on more brokers than that. */
const MAX_OPEN = 256;

interface Open {
  readonly socket: Socket;
  /** `bytesRead` at the start of the current minute. */
  readBefore: number;
}

/**
 * The connections of one client, opened through the guard. Drivers wrap and retry errors of a connection; here the last
 * error is kept as it was. `end` closes connections that a driver would wait for. A connection that receives too many
 * bytes is closed.
 */
export class Connections {
  readonly #guard: EgressGuard;
  readonly #maxBytesAMinute: number;
  readonly #open = new Set<Open>();
  #checking: NodeJS.Timeout | undefined;
  #checks = 0;
  #lastFailure: Error | undefined;

  constructor(guard: EgressGuard, maxBytesAMinute = MAX_BYTES_A_MINUTE) {
    this.#guard = guard;
    this.#maxBytesAMinute = maxBytesAMinute;
  }

  /** The error of the connection that failed last. */
  get lastFailure(): Error | undefined {
    return this.#lastFailure;
  }

  connect(target: EgressTarget): Socket {
    return this.#watched(this.#guard.connect(target));
  }

  /** For drivers that connect the socket themselves. */
  socket(): Socket {
    return this.#watched(this.#guard.socket());
  }

  /** Closes all connections at once; with an error for drivers that ignore a close without one. */
  end(error?: Stopped): void {
    for (const { socket } of this.#open) socket.destroy(error);
  }

  #watched(socket: Socket): Socket {
    const open: Open = { socket, readBefore: 0 };
    if (this.#open.size >= MAX_OPEN)
      process.nextTick(() => socket.destroy(new ResponseTooLarge('too many connections are asked for')));
    this.#open.add(open);
    this.#checkSoon();
    socket.on('error', (error) => {
      this.#lastFailure = error;
    });
    socket.on('close', () => this.#open.delete(open));
    return socket;
  }

  /** By `bytesRead`: there are no `data` events here where a driver wraps the socket in TLS. */
  #checkSoon(): void {
    this.#checking ??= setTimeout(() => {
      this.#checking = undefined;
      this.#checks += 1;
      const isNewMinute = this.#checks % (MINUTE_MS / CHECK_MS) === 0;
      for (const open of this.#open) {
        const { socket, readBefore } = open;
        if (socket.bytesRead - readBefore > this.#maxBytesAMinute)
          socket.destroy(new ResponseTooLarge('too much was answered'));
        if (isNewMinute) open.readBefore = socket.bytesRead;
      }
      if (this.#open.size > 0) this.#checkSoon();
    }, CHECK_MS).unref();
  }
}
