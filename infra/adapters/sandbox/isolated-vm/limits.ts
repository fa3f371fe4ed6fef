/** What user code and the worker processes may take. Handed to each worker when it starts. */
export interface SandboxLimits {
  /** Wall time an event may take, also the top level of a program when it loads, ms. */
  readonly eventMs: number;
  /** A worker gives others their turn after this long with one batch, ms. */
  readonly sliceMs: number;
  /** A worker that has not answered for this long while it burns CPU is killed, ms. */
  readonly watchdogMs: number;
  /** Heap of one isolate, MB. */
  readonly isolateMb: number;
  /** Resident memory of one worker process, MB; above it, it is killed. */
  readonly processMb: number;
  /** Isolates a worker keeps, and the heap they may hold together, MB. */
  readonly maxIsolates: number;
  readonly maxIsolatesMb: number;
  /** Events an isolate runs before it is made anew. */
  readonly recycleAfter: number;
  /** An isolate that holds more than this is made anew, MB. */
  readonly recycleAboveMb: number;
  /** An isolate that was given more programs than this is made anew: those of old versions stay in it until then. */
  readonly recycleAbovePrograms: number;
  /** Events and characters that go to a worker in one message. */
  readonly chunkEvents: number;
  readonly chunkChars: number;
  /** Kills in a row, within one call, after which the rest of the call fails without a run. */
  readonly maxKills: number;
  /** How long who takes workers down waits for the next one, apart from the others, ms. */
  readonly restMs: number;
  /** A worker that is not ready after this long is given up, ms. */
  readonly startMs: number;
}

export const DEFAULT_LIMITS: SandboxLimits = {
  eventMs: 100,
  sliceMs: 10,
  watchdogMs: 500,
  isolateMb: 64,
  processMb: 512,
  maxIsolates: 32,
  maxIsolatesMb: 192,
  recycleAfter: 1_000_000,
  recycleAboveMb: 48,
  recycleAbovePrograms: 2_000,
  chunkEvents: 200,
  chunkChars: 112 * 1024,
  maxKills: 3,
  restMs: 1_000,
  startMs: 10_000,
};

/** What may be chosen; the rest follows. */
export interface ChosenLimits {
  /** Wall time of an event, ms. */
  readonly eventMs: number;
  /** Heap of an isolate, MB. */
  readonly isolateMb: number;
}

/**
 * The limits that hold where others than the usual are chosen: what is stuck is stopped after five times the time of an
 * event, isolates are made anew before they are full, and a process has room for four, with what it takes itself.
 */
export function limitsFor({ eventMs, isolateMb }: ChosenLimits): SandboxLimits {
  return {
    ...DEFAULT_LIMITS,
    eventMs,
    watchdogMs: 5 * eventMs,
    isolateMb,
    processMb: 256 + 4 * isolateMb,
    maxIsolatesMb: 3 * isolateMb,
    recycleAboveMb: Math.trunc((3 * isolateMb) / 4),
  };
}

/** What the code inside an isolate must know; part of what a worker is started with. */
export interface OutputLimits {
  readonly maxOutputs: number;
  readonly maxEventBytes: number;
  /** By how much an output may exceed its event where both are larger than that. */
  readonly outputRoomBytes: number;
  readonly maxMessageChars: number;
  readonly maxLogLines: number;
  readonly maxLogChars: number;
  readonly sliceMs: number;
  /** Characters of output after which a slice ends. */
  readonly sliceChars: number;
}

/** The argument a worker process is started with. */
export interface WorkerSettings {
  readonly limits: SandboxLimits;
  readonly output: OutputLimits;
}
