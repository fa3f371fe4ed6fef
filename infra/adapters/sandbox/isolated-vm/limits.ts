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
  startMs: 30_000,
};

/** The limits that are settings; the others follow from them. */
export interface ChosenLimits {
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
