import type { FlowContext, LogEntry, OutputRecord } from '@tributary/core';
import type { Slot } from './flow-window.ts';

/** Who hands entries over, as it is told what became of them. */
export interface Handler {
  readonly signal: AbortSignal;
  readonly stopping: AbortSignal;
  emitted(handling: Handling, emissions: readonly OutputRecord[]): void;
  threw(handling: Handling, thrown: unknown): void;
  /** Undefined while the stage may make more for it. */
  room(handling: Handling): Promise<void> | undefined;
}

/**
 * An entry in the hands of a flow stage: what the stage is told and answers to, and what it took so far. Its slot stays
 * in the window for longer, and knows nothing of it.
 */
export class Handling implements FlowContext {
  readonly entry: LogEntry;
  readonly slot: Slot;
  readonly bytes: number;
  readonly #handler: Handler;
  throws = 0;
  /** How often in a row an engine did not answer. */
  repetition = 0;
  #isOpen = false;

  constructor(handler: Handler, entry: LogEntry, slot: Slot) {
    this.#handler = handler;
    this.entry = entry;
    this.slot = slot;
    this.bytes = slot.bytes;
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

  done(emissions: readonly OutputRecord[]): void {
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
