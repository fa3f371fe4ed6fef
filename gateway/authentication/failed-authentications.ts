import type { Clock } from '@tributary/core';
import { addressGroup, type IpAddress, widerGroup } from '../server/ip-address.ts';

/** An address (IPv6: a /64 network) may fail this often in one window. */
export const MAX_FAILURES = 100;
/** The same of all /64 networks of one /48 together, which one customer of a provider may have. */
export const MAX_WIDER_FAILURES = 1_000;
const WINDOW_MS = 60_000;
/** Addresses remembered at once, of those that may go on and of those that may not. */
const MAX_ADDRESSES = 10_000;
/** Addresses that make way for others at once. */
const FORGOTTEN_AT_ONCE = 500;

interface Window {
  /** Epoch ms of the first failure. */
  readonly since: number;
  failures: number;
}

/**
 * How often authentication failed, by address, in the minute since it began to fail. This process's own count.
 *
 * The tables are bounded. Past the bound the addresses that began to fail first are forgotten, but an address that has to
 * wait is kept apart and only makes way for others that have to wait: failures at many addresses lift no refusal.
 */
export class FailedAuthentications {
  readonly #clock: Clock;
  readonly #counting = new Map<string, Window>();
  readonly #waiting = new Map<string, Window>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Seconds until failures of this address are taken again; 0 while they are. */
  waitOf(address: IpAddress): number {
    let ms = 0;
    for (const { name } of groupsOf(address)) {
      const window = this.#windowIn(this.#waiting, name);
      if (window !== undefined) ms = Math.max(ms, window.since + WINDOW_MS - this.#clock());
    }
    return Math.ceil(ms / 1000);
  }

  note(address: IpAddress): void {
    for (const { name, max } of groupsOf(address)) this.#noteGroup(name, max);
  }

  #noteGroup(name: string, max: number): void {
    if (this.#windowIn(this.#waiting, name) !== undefined) return;
    const window = this.#windowIn(this.#counting, name) ?? { since: this.#clock(), failures: 0 };
    window.failures++;
    if (window.failures >= max) {
      this.#counting.delete(name);
      put(this.#waiting, name, window);
    } else if (window.failures === 1) put(this.#counting, name, window);
  }

  /** The window an address is in; one that is over, or that a clock set back would keep open for long, is removed. */
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

/** Adds the window as the youngest, in place of the oldest ones where there is no room. */
function put(windows: Map<string, Window>, name: string, window: Window): void {
  windows.delete(name);
  // Many at a time: to find the oldest entry of a map takes longer the more of them were removed one by one.
  if (windows.size >= MAX_ADDRESSES)
    for (const oldest of [...windows.keys()].slice(0, FORGOTTEN_AT_ONCE)) windows.delete(oldest);
  windows.set(name, window);
}
