import type { Dispatcher } from 'undici';
import type { Ending } from '../deadlines.ts';
import { ANNOUNCED_STATUS } from '../egress/answer-heads.ts';
import { TooMuchAnswered } from '../errors.ts';

/** Bytes of an answer that are read at most so that its connection can be used again; a longer one costs it. */
const MAX_READ_BYTES = 16 * 1_024;

const NOTHING = new Uint8Array();

/** An answer as it came. */
export interface RawAnswer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  /** The body up to where it was read, or what came of it. */
  readonly start: Uint8Array;
  /** True when `start` is the whole body. */
  readonly whole: boolean;
}

interface Waiting {
  resolve(answer: RawAnswer): void;
  reject(reason: unknown): void;
}

/**
 * Takes in the answer to one request as it comes, without a stream: most answers are a status line and nothing else,
 * and a stream costs more than all the rest of them. It settles once, at the end of the answer or when the signal
 * fires. A status line that has come stands: headers or a body that break off, or drip on past the deadline, cannot take
 * that back; whoever needs all of it asks whether it is whole.
 */
export class Answering implements Dispatcher.DispatchHandler {
  readonly #signal: Ending;
  readonly #keptBytes: number;
  readonly #waiting: Waiting;
  readonly #calledOff = () => {
    const { reason } = this.#signal;
    this.#fail(reason);
    if (reason !== undefined) this.#controller?.abort(reason);
  };
  #controller: Dispatcher.DispatchController | undefined;
  #status: number | undefined;
  /** Of a status line whose headers did not all come. */
  #announced: number | undefined;
  #retryAfter: string | undefined;
  readonly #chunks: Uint8Array[] = [];
  #read = 0;

  constructor(signal: Ending, keptBytes: number, waiting: Waiting) {
    this.#signal = signal;
    this.#keptBytes = keptBytes;
    this.#waiting = waiting;
    if (signal.aborted) waiting.reject(signal.reason);
    else signal.addEventListener('abort', this.#calledOff);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    const { reason } = this.#signal;
    if (reason !== undefined) controller.abort(reason);
    this.#controller = controller;
  }

  onResponseStart(
    _: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (status < 200) {
      this.#announced = Number(headers[ANNOUNCED_STATUS]) || undefined;
      return;
    }
    const { 'retry-after': retryAfter } = headers;
    this.#status = status;
    this.#retryAfter = Array.isArray(retryAfter) ? retryAfter[0] : retryAfter;
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    if (this.#read < this.#keptBytes) this.#chunks.push(chunk);
    this.#read += chunk.length;
    if (this.#read <= Math.max(this.#keptBytes, MAX_READ_BYTES)) return;
    const tooMuch = new TooMuchAnswered('the answer is longer than what is read of one');
    this.#fail(tooMuch);
    controller.abort(tooMuch);
  }

  onResponseEnd(): void {
    this.#end(this.#read <= this.#keptBytes);
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.#fail(error);
  }

  #fail(reason: unknown): void {
    this.#signal.removeEventListener('abort', this.#calledOff);
    this.#status ??= this.#announced;
    if (this.#status === undefined) this.#waiting.reject(reason);
    else this.#end(false);
  }

  #end(whole: boolean): void {
    this.#signal.removeEventListener('abort', this.#calledOff);
    const start =
      this.#chunks.length === 0 ? NOTHING : Buffer.concat(this.#chunks).subarray(0, this.#keptBytes);
    const [status, retryAfter] = [this.#status ?? 0, this.#retryAfter];
    this.#waiting.resolve({ status, retryAfter, start, whole });
  }
}
