import type { SandboxErrorKind, SandboxFault } from '@tributary/core';
import type { SandboxLimits } from './limits.ts';
import type { Entry, Report } from './protocol.ts';

/** Consecutive events of a call that are sent to a worker together. */
export interface Chunk {
  /** Index of the first event. */
  readonly first: number;
  readonly count: number;
  /** A single suspect event, run in an isolate of its own: a failure is its own fault. */
  readonly alone: boolean;
  /** How often the run was stopped because the machine was too busy to run it. */
  readonly starved: number;
}

export interface Fault extends SandboxFault {
  readonly kind: SandboxErrorKind;
}

/** The work left after a worker has stopped on a chunk. Events with an answer are done. */
export interface NextSteps {
  /** To be run next. */
  readonly chunks: readonly Chunk[];
  /** The fault of the (only) event of the chunk. */
  readonly fault?: Fault;
  /** The fault of every event of the call without an answer. */
  readonly restFault?: Fault;
}

/**
 * Retries of a chunk whose wall time was used up by the machine, not by the code. Each has twice the time of the one before,
 * so the last still ends where the worker gets a thirtieth of a core.
 */
const MAX_STARVED = 5;

/** V8's message when there is no memory for a buffer. */
const ALLOCATION_FAILED = 'Array buffer allocation failed';

/**
 * Chunks for the events that failed for lack of memory, which other programs of the isolate may hold: each is run again,
 * alone.
 */
export function shortOfMemory(chunk: Chunk, entries: readonly Entry[]): readonly Chunk[] {
  if (chunk.alone) return [];
  const isShortOfMemory = ([kind, , failure]: Entry) => kind !== 0 && failure[0].includes(ALLOCATION_FAILED);
  return entries.flatMap((entry, i) => (isShortOfMemory(entry) ? [alone(chunk.first + i)] : []));
}

/** Wall time of each event of a chunk, ms. */
export function limitMsOf({ starved }: Chunk, { eventMs }: SandboxLimits): number {
  return eventMs * 2 ** starved;
}

/** The next steps after a report. An event is blamed for a stop only if it ran alone. */
export function afterReport(chunk: Chunk, report: Report, limits: SandboxLimits): NextSteps {
  const rest = chunkOf(chunk.first + report.entries.length, chunk.count - report.entries.length);
  switch (report.stop) {
    case 'ended':
      return { chunks: rest.count > 0 ? [rest] : [] };
    case 'missing':
      return { chunks: [chunk] };
    case 'memory':
      return chunk.alone ? guilty(memoryFault(limits)) : { chunks: eachAlone(chunk) };
    case 'unloadable': {
      const fault = report.fault ?? { kind: 'compile', message: 'the source does not load' };
      if (isRetried(chunk, report, limits)) return retry(chunk);
      return { chunks: [], restFault: fault };
    }
    case 'hung':
      if (!chunk.alone) return { chunks: eachAlone(chunk) };
      return isRetried(chunk, report, limits) ? retry(chunk) : guilty(timeoutFault(limits));
    case 'timeout': {
      if (chunk.alone) {
        return isRetried(chunk, report, limits) ? retry(chunk) : guilty(timeoutFault(limits));
      }
      const after = chunkOf(rest.first + 1, rest.count - 1);
      return { chunks: [alone(rest.first), ...(after.count > 0 ? [after] : [])] };
    }
  }
}

/** The next steps after the worker was killed or died. `kills`: consecutive workers lost by this call, this one included. */
export function afterKill(
  chunk: Chunk,
  kind: 'timeout' | 'memory',
  kills: number,
  limits: SandboxLimits,
): NextSteps {
  const fault = kind === 'timeout' ? timeoutFault(limits) : memoryFault(limits);
  if (kills >= limits.maxKills) {
    const message = `not run: the program took down its process ${kills} times in a row`;
    return { ...(chunk.alone ? { fault } : {}), chunks: [], restFault: { kind, message } };
  }
  return chunk.alone ? guilty(fault) : { chunks: eachAlone(chunk) };
}

export function chunkOf(first: number, count: number): Chunk {
  return { first, count, alone: false, starved: 0 };
}

function alone(index: number): Chunk {
  return { first: index, count: 1, alone: true, starved: 0 };
}

function eachAlone(chunk: Chunk): readonly Chunk[] {
  return Array.from({ length: chunk.count }, (_, i) => alone(chunk.first + i));
}

function retry(chunk: Chunk): NextSteps {
  return { chunks: [{ ...chunk, starved: chunk.starved + 1 }] };
}

/** Whether code was stopped by a limit of time. */
export function isOutOfTime({ stop, fault }: Report): boolean {
  return stop === 'timeout' || stop === 'hung' || fault?.kind === 'timeout';
}

/**
 * Whether code was stopped because the machine was too busy to run it. Code in an isolate never waits, so wall time without
 * processor time is the machine's fault.
 */
export function isStarved(report: Report, { eventMs }: SandboxLimits): boolean {
  return isOutOfTime(report) && report.wallMs >= eventMs && report.cpuMs < 0.9 * eventMs;
}

function isRetried(chunk: Chunk, report: Report, limits: SandboxLimits): boolean {
  return chunk.starved < MAX_STARVED && isStarved(report, limits);
}

function guilty(fault: Fault): NextSteps {
  return { chunks: [], fault };
}

function timeoutFault(limits: SandboxLimits): Fault {
  return { kind: 'timeout', message: `took longer than ${limits.eventMs} ms` };
}

function memoryFault(limits: SandboxLimits): Fault {
  return { kind: 'memory', message: `took more memory than the ${limits.isolateMib} MiB it may have` };
}
