import type { SandboxLogLevel } from '@tributary/core';

/** A request to a worker: to run a program over events, or to check whether it loads. */
export interface WorkerRequest {
  readonly op: 'run' | 'check';
  readonly program: string;
  /** Programs of one owner share an isolate. */
  readonly owner: string;
  /** Absent if the worker has probably loaded the program already. */
  readonly source?: string;
  readonly events: number;
  /** JSON of four numbers per event: the characters of its text and of its context in the body, its clock, its seed. */
  readonly sizes: string;
  /** Run in a new isolate of its own. The source is included. */
  readonly alone: boolean;
  readonly captureLogs: boolean;
  /** Wall time of an event, and of loading the program, ms. */
  readonly limitMs: number;
}

/**
 * Why a worker stopped working on a request.
 * - `ended`: the answered events are done; fewer than requested if it is another program's turn.
 * - `timeout`: the event after the answered ones exceeded its time.
 * - `hung`: an event left work behind that does not end; none of the answers counts.
 * - `memory`: the isolate took too much memory; none of the answers counts.
 * - `missing`: the program is not loaded; send the request again with its source.
 * - `unloadable`: the program did not load; `fault` has the reason.
 */
export type Stop = 'ended' | 'timeout' | 'hung' | 'memory' | 'missing' | 'unloadable';

/**
 * The message of isolated-vm that a worker writes to stderr where code still runs seconds after its time limit. The
 * watchdog comes first, unless the worker hardly gets a processor.
 */
export const NOT_TERMINATED = 'Script failed to terminate';

export interface LoadFault {
  readonly kind: 'compile' | 'timeout' | 'memory';
  readonly message: string;
  /** In the source, from 1; absent if unknown. */
  readonly line?: number;
  readonly column?: number;
}

/** A line that was logged. */
export type LogLine = readonly [level: SandboxLogLevel, text: string];

/** A failure: its message and its place in the source, 0 if unknown. */
export type Failure = readonly [message: string, line: number, column: number];

/**
 * One event's answer: `[0, ms, lengths of its outputs, logs?]` or `[kind, ms, failure, logs?]`, in whole milliseconds.
 * The outputs follow one another in the body.
 */
export type Entry =
  | readonly [kind: 0, ms: number, sizes: readonly number[], logs?: readonly LogLine[]]
  | readonly [kind: 'threw' | 'output', ms: number, failure: Failure, logs?: readonly LogLine[]];

export interface Report {
  readonly stop: Stop;
  /** Wall time of the request in its isolate and processor time of the worker meanwhile, ms. */
  readonly wallMs: number;
  readonly cpuMs: number;
  /** How long loading the program took, ms; 0 if it was loaded before. */
  readonly loadMs: number;
  readonly fault?: LoadFault;
  readonly entries: readonly Entry[];
}

/** The first message of a worker. */
export const READY = 'ready';

export function requestFrame(request: WorkerRequest, texts: string): Frame {
  return { head: JSON.stringify(request), body: texts };
}

/** `answers`: see `Answers`. */
export function reportFrame(report: Omit<Report, 'entries'>, answers = '[]\n'): Frame {
  const end = answers.indexOf('\n');
  const rest = JSON.stringify(report).slice(0, -1);
  return { head: `${rest},"entries":${answers.slice(0, end)}}`, body: answers.slice(end + 1) };
}

export function parseRequest(head: string): WorkerRequest {
  return JSON.parse(head) as WorkerRequest;
}

/**
 * A frame on a pipe: `u32 length of the rest | u32 length of the head | head | body`, both texts in UTF-8. The body is one
 * text, cut by lengths given in the head, so that JSON texts travel unescaped.
 */
export interface Frame {
  readonly head: string;
  readonly body: string;
}

/**
 * Larger than any frame of either side: about 1 MiB of outputs, and those of the last event, 100 of 32 KiB. A sender of a
 * longer frame cannot be trusted.
 */
const MAX_FRAME_BYTES = 32 * 1024 * 1024;
const LENGTH_BYTES = 4;

export function encodeFrame({ head, body }: Frame): Buffer {
  const headBytes = Buffer.byteLength(head);
  const bodyBytes = Buffer.byteLength(body);
  const frame = Buffer.allocUnsafe(2 * LENGTH_BYTES + headBytes + bodyBytes);
  frame.writeUInt32LE(LENGTH_BYTES + headBytes + bodyBytes, 0);
  frame.writeUInt32LE(headBytes, LENGTH_BYTES);
  frame.write(head, 2 * LENGTH_BYTES);
  frame.write(body, 2 * LENGTH_BYTES + headBytes);
  return frame;
}

/** Assembles frames from the pieces that a pipe delivers. */
export class FrameReader {
  #pieces: Buffer[] = [];
  #size = 0;
  /** Bytes of the next frame, its length included; undefined before the length has arrived. */
  #wanted: number | undefined;

  /** The frames completed by this piece, in order. Throws `RangeError` if the stream is not made of frames. */
  push(piece: Buffer): readonly Frame[] {
    this.#pieces.push(piece);
    this.#size += piece.length;
    const frames: Frame[] = [];
    for (let frame = this.#next(); frame !== undefined; frame = this.#next()) frames.push(frame);
    return frames;
  }

  #next(): Frame | undefined {
    this.#wanted ??= this.#lengthOfNext();
    if (this.#wanted === undefined || this.#size < this.#wanted) return undefined;
    const all = this.#joined();
    const frame = decodeFrame(all.subarray(LENGTH_BYTES, this.#wanted));
    this.#pieces = [all.subarray(this.#wanted)];
    this.#size -= this.#wanted;
    this.#wanted = undefined;
    return frame;
  }

  #lengthOfNext(): number | undefined {
    if (this.#size < LENGTH_BYTES) return undefined;
    const length = this.#joined().readUInt32LE(0);
    if (length > MAX_FRAME_BYTES) throw new RangeError(`a frame of ${length} bytes`);
    return LENGTH_BYTES + length;
  }

  #joined(): Buffer {
    const [first] = this.#pieces;
    if (this.#pieces.length === 1 && first !== undefined) return first;
    const all = Buffer.concat(this.#pieces, this.#size);
    this.#pieces = [all];
    return all;
  }
}

function decodeFrame(rest: Buffer): Frame {
  if (rest.length < LENGTH_BYTES) throw new RangeError(`a frame without a head`);
  const headEnd = LENGTH_BYTES + rest.readUInt32LE(0);
  if (headEnd > rest.length) throw new RangeError('a head longer than its frame');
  return { head: rest.toString('utf8', LENGTH_BYTES, headEnd), body: rest.toString('utf8', headEnd) };
}

/**
 * The events of a request, for an isolate. Long texts cross into and out of an isolate inside an array, which copies them:
 * on their own they would stay outside the heap, where the garbage collector does not see them.
 */
type Batch = readonly [sizes: string, texts: string];
/** Entries as JSON, a line feed, the outputs. */
export type Answers = readonly [text: string];

/** The functions inside an isolate that its worker calls. */
export interface Inside {
  /**
   * Registers a source of the user under a number, as a function that evaluates it with a given global object and returns
   * its `transform`. Evaluates it once. Returns the JSON of an `Adopted`.
   */
  adopt(program: number, evaluate: unknown, usesGlobal: boolean): string;
  /**
   * Runs events through a program. Returns the answers, or undefined while an event awaits a promise: then call `answers`
   * once the microtasks are drained.
   */
  run(program: number, batch: Batch, keepLogs: boolean): Answers | undefined;
  /** The answers so far. `settle`: an event that still awaits a promise fails. */
  answers(settle: boolean): Answers;
}

/** The fault of a source, and the properties that it added to `globalThis` (`self`, `this`) while it was evaluated. */
export interface Adopted {
  readonly fault: Failure | null;
  readonly globals: readonly string[];
}

/** Limits of user code and of the worker processes. Passed to each worker when it starts. */
export interface SandboxLimits {
  /** Wall time of an event, and of the top level of a program when it is loaded, ms. */
  readonly eventMs: number;
  /** After this time with one batch it is another program's turn, ms. */
  readonly sliceMs: number;
  /** A worker that has used processor time for this long without a report is killed, ms. */
  readonly watchdogMs: number;
  /** Heap of one isolate, MiB. */
  readonly isolateMib: number;
  /** Resident memory of a worker process, MiB; above it, it is killed. */
  readonly processMib: number;
  /** Isolates that a worker keeps, and the size of all of their heaps, MiB. */
  readonly maxIsolates: number;
  readonly maxIsolatesMib: number;
  /** Events after which an isolate is replaced. */
  readonly recycleAfter: number;
  /** Heap size above which an isolate is replaced, MiB. */
  readonly recycleAboveMib: number;
  /** Programs after which an isolate is replaced: old versions of programs stay in it until then. */
  readonly recycleAbovePrograms: number;
  /** Events and characters of one request to a worker. */
  readonly chunkEvents: number;
  readonly chunkChars: number;
  /** Consecutive workers lost by one call, after which the rest of the call fails without a run. */
  readonly maxKills: number;
  /** Pause before a lost worker of the quarantine is replaced, ms. */
  readonly restartDelayMs: number;
  /** A worker that is not ready after this time is killed, ms. Long, because a busy machine is no reason to start it again. */
  readonly startMs: number;
}

export const DEFAULT_LIMITS: SandboxLimits = {
  eventMs: 100,
  sliceMs: 10,
  watchdogMs: 500,
  isolateMib: 64,
  processMib: 512,
  maxIsolates: 32,
  maxIsolatesMib: 192,
  recycleAfter: 1_000_000,
  recycleAboveMib: 48,
  recycleAbovePrograms: 2_000,
  chunkEvents: 200,
  chunkChars: 112 * 1024,
  maxKills: 3,
  restartDelayMs: 1_000,
  startMs: 60_000,
};

/** The limits that are settings; the others follow from them. */
interface ChosenLimits {
  /** Wall time of an event, ms. */
  readonly eventMs: number;
  /** Heap of an isolate, MiB. */
  readonly isolateMib: number;
}

/**
 * The limits that follow from the configured ones: a worker without a report is killed after five times the time of an
 * event, isolates are replaced before they are full, and a process has room for four isolates beside its own memory.
 */
export function limitsFor({ eventMs, isolateMib }: ChosenLimits): SandboxLimits {
  return {
    ...DEFAULT_LIMITS,
    eventMs,
    watchdogMs: 5 * eventMs,
    isolateMib,
    processMib: 256 + 4 * isolateMib,
    maxIsolatesMib: 3 * isolateMib,
    recycleAboveMib: Math.trunc((3 * isolateMib) / 4),
  };
}

/** Limits that are enforced inside an isolate. */
export interface OutputLimits {
  readonly maxOutputs: number;
  readonly maxEventBytes: number;
  /** By how much an output may exceed its event, if both exceed `maxEventBytes`. */
  readonly outputRoomBytes: number;
  readonly maxMessageChars: number;
  readonly maxLogLines: number;
  readonly maxLogChars: number;
  readonly sliceMs: number;
  /** Characters of output after which a slice ends. */
  readonly sliceChars: number;
}

/** The argument of a worker process. */
export interface WorkerSettings {
  readonly limits: SandboxLimits;
  readonly output: OutputLimits;
}
