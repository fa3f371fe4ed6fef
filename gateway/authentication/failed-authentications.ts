import type { Clock } from '@tributary/core';
import { addressGroup, type IpAddress, widerGroup } from '../server/ip-address.ts';

/** Failures of one address (IPv6: a /64 network) in one window. */
export const MAX_FAILURES = 100;
/** Failures of one /48 network, which a provider may assign to one customer. */
export const MAX_WIDER_FAILURES = 1_000;
const WINDOW_MS = 60_000;
/** Addresses in each of the two tables. */
const MAX_ADDRESSES = 10_000;
/** Addresses that are evicted at a time. */
const FORGOTTEN_AT_ONCE = 500;

interface Window {
  /** Epoch ms of the first failure. */
  readonly since: number;
  failures: number;
}

/**
 * Counts failed authentications by address, in a window of a minute that begins with the first failure, in this process.
 *
 * The tables are bounded; the oldest entries are evicted. Throttled addresses are in a table of their own, so failures
 * from many other addresses do not lift a throttle.
 */
export class FailedAuthentications {
  readonly #clock: Clock;
  readonly #counting = new Map<string, Window>();
  readonly #throttled = new Map<string, Window>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Seconds until the throttle of this address ends; 0 when it is not throttled. */
  waitOf(address: IpAddress): number {
    let ms = 0;
    for (const { name } of groupsOf(address)) {
      const window = this.#windowIn(this.#throttled, name);
      if (window !== undefined) ms = Math.max(ms, window.since + WINDOW_MS - this.#clock());
    }
    return Math.ceil(ms / 1000);
  }

  note(address: IpAddress): void {
    for (const { name, max } of groupsOf(address)) this.#noteGroup(name, max);
  }

  #noteGroup(name: string, max: number): void {
    if (this.#windowIn(this.#throttled, name) !== undefined) return;
    const window = this.#windowIn(this.#counting, name) ?? { since: this.#clock(), failures: 0 };
    window.failures++;
    if (window.failures >= max) {
      this.#counting.delete(name);
      put(this.#throttled, name, window);
    } else if (window.failures === 1) put(this.#counting, name, window);
  }

  /** The current window of an address. A window that is over is removed, as is one from the future after a clock change. */
  #windowIn(windows: Map<string, Window>, name: string): Window | undefined {
    const window = windows.get(name);
    if (window === undefined) return undefined;
    const age = this.#clock() - window.since;
    if (age >= 0 && age < WINDOW_MS) return window;
    windows.delete(name);
    return undefined;
  }
}

interface CountedGroup {
  readonly name: string;
  readonly max: number;
}

function groupsOf(address: IpAddress): readonly CountedGroup[] {
  const group = { name: addressGroup(address), max: MAX_FAILURES };
  const wider = widerGroup(address);
  return wider === undefined ? [group] : [group, { name: wider, max: MAX_WIDER_FAILURES }];
}

/** Adds a window as the newest, and evicts the oldest ones when the table is full. */
function put(windows: Map<string, Window>, name: string, window: Window): void {
  windows.delete(name);
  // Several at a time: finding the first key of a map gets slower with the entries deleted before it.
  if (windows.size >= MAX_ADDRESSES)
    for (const oldest of [...windows.keys()].slice(0, FORGOTTEN_AT_ONCE)) windows.delete(oldest);
  windows.set(name, window);
}
