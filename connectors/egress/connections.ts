import type { Socket } from 'node:net';
import type { Stopped } from '../errors.ts';
import type { EgressGuard, EgressTarget } from './guard.ts';

/**
 * The connections of one client, opened through the guard. Drivers wrap and retry what happens to a connection; here
 * it is kept as it was, and `end` ends what a driver would wait for.
 */
export class Connections {
  readonly #guard: EgressGuard;
  readonly #open = new Set<Socket>();
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
    for (const socket of this.#open) socket.destroy(error);
  }

  #watched(socket: Socket): Socket {
    this.#open.add(socket);
    socket.on('error', (error) => {
      this.#lastFailure = error;
    });
    socket.on('close', () => this.#open.delete(socket));
    return socket;
  }
}
