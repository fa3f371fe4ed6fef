import type { Emission, FlowContext, LogEntry } from '@tributary/core';
import type { Cursor, Taken } from './cursor.ts';
import type { Slot } from './flow-window.ts';

/** Who hands entries over, as it is told what became of them. */
export interface Handler {
  readonly signal: AbortSignal;
  readonly stopping: AbortSignal;
  emitted(handling: Handling, emissions: readonly Emission[]): void;
  threw(handling: Handling, thrown: unknown): void;
  /** Undefined while the stage may make more for it. */
  room(handling: Handling): Promise<void> | undefined;
}

/**
 * An entry in the hands of a flow stage: its place in the window, what the stage is told and answers to, and what it
 * took so far. All in one object, since thousands of them wait.
 */
export class Handling implements Slot, FlowContext {
  readonly entry: LogEntry;
  readonly after: Cursor;
  readonly #handler: Handler;
  bytes: number;
  emissions: readonly Emission[] | undefined = undefined;
  throws = 0;
  /** How often in a row an engine did not answer. */
  repetition = 0;
  #isOpen = false;

  constructor(handler: Handler, { entry, after }: Taken, bytes: number) {
    this.#handler = handler;
    this.entry = entry;
    this.after = after;
    this.bytes = bytes;
  }

  get signal(): AbortSignal {
    return this.#handler.signal;
  }

  get stopping(): AbortSignal {
    return this.#handler.stopping;
  }

  /** The stage has it from now on, and answers once. */
  open(): void {
    this.#isOpen = true;
  }

  done(emissions: readonly Emission[]): void {
    if (this.#close()) this.#handler.emitted(this, emissions);
  }

  failed(thrown: unknown): void {
    if (this.#close()) this.#handler.threw(this, thrown);
  }

  room(): Promise<void> | undefined {
    return this.#handler.room(this);
  }

  #close(): boolean {
    const wasOpen = this.#isOpen;
    this.#isOpen = false;
    return wasOpen;
  }
}
