import type { Socket } from 'node:net';
import { type Stopped, TooMuchAnswered } from '../failures.ts';
import type { EgressGuard, EgressTarget } from './guard.ts';

/**
 * Bytes that may come on a connection within a minute: far more than any honest answer to what is written, and a driver
 * keeps an answer until it is whole.
 */
const MAX_BYTES_A_MINUTE = 16 * 1_024 * 1_024;
/** How often it is looked how much came, ms: what a network brings meanwhile may come on top. */
const LOOK_MS = 100;
const MINUTE_MS = 60_000;
/** Connections of one client at a time: a cluster with more brokers than that leads no single topic. */
const MAX_OPEN = 256;

interface Open {
  readonly socket: Socket;
  /** Of the minute that began last. */
  readBefore: number;
}

/**
 * The connections of one client, opened through the guard. Drivers wrap and retry what happens to a connection; here
 * it is kept as it was, and `end` ends what a driver would wait for. One on which too much comes is ended.
 */
export class Connections {
  readonly #guard: EgressGuard;
  readonly #open = new Set<Open>();
  #looking: NodeJS.Timeout | undefined;
  #looks = 0;
  #lastFailure: Error | undefined;

  constructor(guard: EgressGuard) {
    this.#guard = guard;
  }

  /** Why the last connection failed that did. */
  get lastFailure(): Error | undefined {
    return this.#lastFailure;
  }

  connect(target: EgressTarget): Socket {
    return this.#watched(this.#guard.connect(target));
  }

  /** For drivers that connect it themselves. */
  socket(): Socket {
    return this.#watched(this.#guard.socket());
  }

  /** Ends them all, whatever is under way; with an error for drivers that do not see a connection end without one. */
  end(error?: Stopped): void {
    for (const { socket } of this.#open) socket.destroy(error);
  }

  #watched(socket: Socket): Socket {
    const open: Open = { socket, readBefore: 0 };
    if (this.#open.size >= MAX_OPEN)
      process.nextTick(() => socket.destroy(new TooMuchAnswered('too many connections are asked for')));
    this.#open.add(open);
    this.#look();
    socket.on('error', (error) => {
      this.#lastFailure = error;
    });
    socket.on('close', () => this.#open.delete(open));
    return socket;
  }

  /** By the socket's own count: what comes through TLS that a driver put on it has no event here. */
  #look(): void {
    this.#looking ??= setTimeout(() => {
      this.#looking = undefined;
      this.#looks += 1;
      const isNewMinute = this.#looks % (MINUTE_MS / LOOK_MS) === 0;
      for (const open of this.#open) {
        const { socket, readBefore } = open;
        if (socket.bytesRead - readBefore > MAX_BYTES_A_MINUTE)
          socket.destroy(new TooMuchAnswered('too much was answered'));
        if (isNewMinute) open.readBefore = socket.bytesRead;
      }
      if (this.#open.size > 0) this.#look();
    }, LOOK_MS).unref();
  }
}
