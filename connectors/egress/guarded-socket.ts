import { type LookupFunction, Socket } from 'node:net';
import type { AddressRefused } from '../errors.ts';

export interface GuardedSocketOptions {
  readonly lookup: LookupFunction;
  /** True for a literal address that must not be reached. */
  isRefused(host: string): boolean;
  refuse(): AddressRefused;
}

/** A socket that its driver connects, `connect(port, host)`: to allowed addresses, and to nothing else than a host. */
export class GuardedSocket extends Socket {
  readonly #options: GuardedSocketOptions;

  constructor(options: GuardedSocketOptions) {
    super();
    this.#options = options;
  }

  override connect(...[port, host]: readonly unknown[]): this {
    const { lookup, isRefused, refuse } = this.#options;
    // Any other form could name a path of this machine, or bring a look-up of its own.
    if (typeof port !== 'number' || typeof host !== 'string' || isRefused(host)) {
      process.nextTick(() => this.destroy(refuse()));
      return this;
    }
    return super.connect({ port, host, lookup });
  }
}
