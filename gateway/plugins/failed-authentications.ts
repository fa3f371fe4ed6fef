import type { Clock } from '@tributary/core';

/** An address may fail this often in one window. */
export const MAX_FAILURES = 100;
const WINDOW_MS = 60_000;
/** Addresses remembered at once; past it the one that began to fail first is forgotten. */
const MAX_ADDRESSES = 10_000;

interface Window {
  /** Epoch ms of the first failure. */
  readonly since: number;
  failures: number;
}

/** How often authentication failed, by address, in the minute since it began to fail. This process's own count. */
export class FailedAuthentications {
  readonly #clock: Clock;
  readonly #windows = new Map<string, Window>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Seconds until failures of this address are taken again; 0 while they are. */
  waitOf(address: string): number {
    const window = this.#windowOf(address);
    if (window === undefined || window.failures < MAX_FAILURES) return 0;
    return Math.ceil((window.since + WINDOW_MS - this.#clock()) / 1000);
  }

  note(address: string): void {
    const window = this.#windowOf(address);
    if (window !== undefined) {
      window.failures++;
      return;
    }
    this.#windows.delete(address); // an address that begins anew is the youngest again
    if (this.#windows.size >= MAX_ADDRESSES) this.#forgetOldest();
    this.#windows.set(address, { since: this.#clock(), failures: 1 });
  }

  /** The window an address is in; one that is over, or that a clock set back would keep open for long, is none. */
  #windowOf(address: string): Window | undefined {
    const window = this.#windows.get(address);
    if (window === undefined) return undefined;
    const age = this.#clock() - window.since;
    return age >= 0 && age < WINDOW_MS ? window : undefined;
  }

  #forgetOldest(): void {
    const [oldest] = this.#windows.keys();
    if (oldest !== undefined) this.#windows.delete(oldest);
  }
}
