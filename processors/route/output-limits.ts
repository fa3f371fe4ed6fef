import {
  MAX_CANONICAL_EVENT_BYTES,
  MAX_OUTPUTS,
  OUTPUT_ROOM_BYTES,
  type SandboxResult,
} from '@tributary/core';

/**
 * What one event may become over all rules it matches, whatever their transformations return: deliveries, and bytes of
 * the events in them. Ten transformations may return all that each of them may; 200 rules, the most a workspace has
 * unless its operator allows more, still have 160 KiB and 50 outputs each.
 */
export const EVENT_OUTPUTS = 10_000;
export const EVENT_BYTES = 32 * 1024 * 1024;

/** One output of full size always has room: its event, and the fields that are kept from the source. */
const ONE_OUTPUT_BYTES = MAX_CANONICAL_EVENT_BYTES + OUTPUT_ROOM_BYTES + 4_096;

/** What one rule may make of one event. */
export interface RuleShare {
  readonly outputs: number;
  readonly bytes: number;
  /** The rules that share the bound. */
  readonly rules: number;
}

/**
 * The rules of an event share its bound evenly. So what a rule may make depends on nothing that another one makes, nor
 * on which is done first: a replay gives the same deliveries and the same dead ones.
 */
export function shareOf(rules: number): RuleShare {
  const among = Math.max(1, rules);
  return {
    outputs: Math.min(MAX_OUTPUTS, Math.max(1, Math.floor(EVENT_OUTPUTS / among))),
    bytes: Math.max(ONE_OUTPUT_BYTES, Math.floor(EVENT_BYTES / among)),
    rules: among,
  };
}

/** Why the outputs of a rule are not delivered; undefined where they have room. `bytes` are UTF-8. */
export function excessOf(outputs: readonly string[], share: RuleShare): string | undefined {
  if (outputs.length > share.outputs) {
    return `too much of one event: ${outputs.length} outputs, and each of its ${share.rules} rules may make ${share.outputs}`;
  }
  let bytes = 0;
  for (const output of outputs) bytes += Buffer.byteLength(output);
  if (bytes <= share.bytes) return undefined;
  return `too much of one event: ${bytes} bytes, and each of its ${share.rules} rules may make ${share.bytes}`;
}

/** Characters of outputs that a process holds for events that are not done with, over all partitions. */
const HELD_CHARS = 32 * 1024 * 1024;

/** Characters of outputs after which one call of the sandbox ends. */
const CALL_CHARS = 4 * 1024 * 1024;

/** The entry at work that outputs are held for. Outputs that arrive after it is done are dropped. */
export interface Holder {
  isDone: boolean;
}

/**
 * What transformations returned for events whose other rules are still at work. While it is more than the bound only
 * one event goes on, until it is done; so memory is bounded whatever all programs return at once, and something always
 * moves.
 */
export class HeldOutputs {
  readonly #limit: number;
  readonly #held = new Map<Holder, number>();
  #chars = 0;
  #first: Holder | undefined;
  #changed = Promise.withResolvers<void>();

  constructor(limit = HELD_CHARS) {
    this.#limit = limit;
  }

  get isFull(): boolean {
    return this.#chars >= this.#limit;
  }

  /** Whether more may be made for the event; the first that asks while all is full may, until it is released. */
  mayRun(holder: Holder): boolean {
    if (!this.isFull) return true;
    this.#first ??= holder;
    return this.#first === holder;
  }

  /** The event that may go on while all is full. */
  isFirst(holder: Holder): boolean {
    return this.#first === holder;
  }

  hold(holder: Holder, chars: number): void {
    if (holder.isDone) return;
    this.#chars += chars;
    this.#held.set(holder, (this.#held.get(holder) ?? 0) + chars);
  }

  /** The event is done, or dropped: what was held for it is the window's from now on. */
  release(holder: Holder): void {
    holder.isDone = true;
    this.#chars -= this.#held.get(holder) ?? 0;
    this.#held.delete(holder);
    if (this.#first === holder) this.#first = undefined;
    this.#wake();
  }

  /** Resolves when something was released. */
  changed(): Promise<void> {
    return this.#changed.promise;
  }

  /** Follows one call of the sandbox: what it returned counts from when it arrives. `alone`: for the first event. */
  call(alone: boolean): HeldCall {
    let arrived = 0;
    return {
      made: (chars) => {
        arrived += chars;
        this.#chars += chars;
      },
      goOn: () => alone || (!this.isFull && arrived < CALL_CHARS),
      over: () => {
        const wasFull = this.isFull;
        this.#chars -= arrived;
        arrived = 0;
        if (wasFull && !this.isFull) this.#wake();
      },
    };
  }

  #wake(): void {
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers();
    resolve();
  }
}

export interface HeldCall {
  made(chars: number): void;
  goOn(): boolean;
  /** Its outputs have found their holders. */
  over(): void;
}

/** Events in the first call of a program: nothing is known of what it makes of them. */
const FIRST_EVENTS = 4;
/** Characters of output a call is to come to... */
const TARGET_CALL_CHARS = 4 * 1024 * 1024;
/** ...and may come to when each of its events makes as much as any did before. */
const WORST_CALL_CHARS = 32 * 1024 * 1024;

/**
 * How many events the next call of one program may take. A call is bounded by its input, while an event may become
 * a hundred of full size, so the size follows what came of the calls before: it doubles at most.
 */
export class CallSize {
  #events = FIRST_EVENTS;
  /** The most any event came to, characters. */
  #most = 1;

  get events(): number {
    return this.#events;
  }

  /** Notes what a call came to. */
  note(results: readonly SandboxResult[]): void {
    if (results.length === 0) return;
    let chars = 1;
    for (const result of results) {
      const made = charsOf(result);
      chars += made;
      this.#most = Math.max(this.#most, made);
    }
    const usual = Math.floor((TARGET_CALL_CHARS * results.length) / chars);
    const worst = Math.floor(WORST_CALL_CHARS / this.#most);
    const grown = Math.max(this.#events, results.length * 2);
    this.#events = Math.max(1, Math.min(grown, usual, worst));
  }
}

export function charsOf(result: SandboxResult): number {
  return result.ok ? result.outputs.reduce((chars, output) => chars + output.length, 0) : 0;
}
