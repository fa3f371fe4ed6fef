import {
  MAX_CANONICAL_EVENT_BYTES,
  MAX_OUTPUTS,
  OUTPUT_ROOM_BYTES,
  type SandboxResult,
} from '@tributary/core';

/**
 * Limits on the deliveries of one event over all matching rules, whatever their transformations return: number, and bytes of
 * the events in them. Ten transformations may return their maximum; with 200 rules, the default maximum of a workspace, each
 * still has 160 KiB and 50 outputs.
 */
const EVENT_OUTPUTS = 10_000;
const EVENT_BYTES = 32 * 1024 * 1024;

/** One output of full size always fits: its event, and the fields that are kept from the source. */
const ONE_OUTPUT_BYTES = MAX_CANONICAL_EVENT_BYTES + OUTPUT_ROOM_BYTES + 4_096;

/** The limits of one rule for one event. */
export interface RuleShare {
  readonly outputs: number;
  readonly bytes: number;
  /** Number of rules that share the limits of the event. */
  readonly rules: number;
}

/**
 * The rules of an event share its limits evenly. So the limits of a rule depend neither on the outputs of others nor on the
 * order of execution: a repetition gives the same deliveries and the same dead ones.
 */
export function shareOf(rules: number): RuleShare {
  const among = Math.max(1, rules);
  return {
    outputs: Math.min(MAX_OUTPUTS, Math.max(1, Math.floor(EVENT_OUTPUTS / among))),
    bytes: Math.max(ONE_OUTPUT_BYTES, Math.floor(EVENT_BYTES / among)),
    rules: among,
  };
}

/** Why the outputs of a rule exceed its limits; undefined where they do not. Bytes are UTF-8. */
export function excessOf(outputs: readonly string[], share: RuleShare): string | undefined {
  if (outputs.length > share.outputs) {
    return `too much of one event: ${outputs.length} outputs, and each of its ${share.rules} rules may make ${share.outputs}`;
  }
  let bytes = 0;
  for (const output of outputs) bytes += Buffer.byteLength(output);
  if (bytes <= share.bytes) return undefined;
  return `too much of one event: ${bytes} bytes, and each of its ${share.rules} rules may make ${share.bytes}`;
}

/** Characters of the pending outputs of a process: those of unfinished events, over all partitions. */
const PENDING_CHARS = 32 * 1024 * 1024;

/** Characters of outputs after which one call of the sandbox ends. */
const CALL_CHARS = 4 * 1024 * 1024;

/** An event with pending outputs. Outputs that arrive after it is done are dropped. */
export interface PendingEvent {
  isDone: boolean;
}

/**
 * The outputs of events whose other rules are still running. While they exceed the limit only one event continues, until it
 * is done. So memory is bounded whatever all programs return at once, and there is always progress.
 */
export class PendingOutputs {
  readonly #limit: number;
  readonly #charsOfEvents = new Map<PendingEvent, number>();
  #chars = 0;
  #first: PendingEvent | undefined;
  #changed = Promise.withResolvers<void>();

  constructor(limit = PENDING_CHARS) {
    this.#limit = limit;
  }

  get isFull(): boolean {
    return this.#chars >= this.#limit;
  }

  /** Whether the event may run more programs. While full, only the first event that called this may, until released. */
  mayRun(event: PendingEvent): boolean {
    if (!this.isFull) return true;
    this.#first ??= event;
    return this.#first === event;
  }

  /** Whether it is the event that may continue while full. */
  isFirst(event: PendingEvent): boolean {
    return this.#first === event;
  }

  add(event: PendingEvent, chars: number): void {
    if (event.isDone) return;
    this.#chars += chars;
    this.#charsOfEvents.set(event, (this.#charsOfEvents.get(event) ?? 0) + chars);
  }

  /** The event is done or dropped: from now on its outputs count in the window of its partition. */
  release(event: PendingEvent): void {
    event.isDone = true;
    this.#chars -= this.#charsOfEvents.get(event) ?? 0;
    this.#charsOfEvents.delete(event);
    if (this.#first === event) this.#first = undefined;
    this.#wake();
  }

  /** Resolves when something was released. */
  changed(): Promise<void> {
    return this.#changed.promise;
  }

  /** Accounts for one sandbox call, whose outputs count from their arrival on. `alone`: it is for the first event. */
  call(alone: boolean): PendingCall {
    let arrived = 0;
    return {
      add: (chars) => {
        arrived += chars;
        this.#chars += chars;
      },
      hasRoom: () => alone || (!this.isFull && arrived < CALL_CHARS),
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

interface PendingCall {
  add(chars: number): void;
  hasRoom(): boolean;
  /** The call is over: its outputs were added to their events, or dropped. */
  over(): void;
}

/** Events in the first call of a program, the size of whose outputs is unknown. */
const FIRST_EVENTS = 4;
/** Characters of output that the next call is to have, if its events have as much as those of the last call on average. */
const TARGET_CALL_CHARS = 4 * 1024 * 1024;
/** Limit on the characters of output of a call if each event has as much as the largest so far. */
const WORST_CALL_CHARS = 32 * 1024 * 1024;

/**
 * The number of events in the next call of one program. Calls are limited by their input, but an event may become a hundred
 * of full size, so the number follows the outputs of earlier calls. It doubles at most.
 */
export class CallSize {
  #events = FIRST_EVENTS;
  /** The largest output of an event so far, characters. */
  #most = 1;

  get events(): number {
    return this.#events;
  }

  /** Registers the outputs of a call. */
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
