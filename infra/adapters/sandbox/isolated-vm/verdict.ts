import type { SandboxErrorKind, SandboxFault } from '@tributary/core';
import type { SandboxLimits } from './limits.ts';
import type { Entry, Report } from './messages.ts';

/** Some events of a call that go to a worker together. */
export interface Chunk {
  /** Index of the first event. */
  readonly first: number;
  readonly count: number;
  /** One suspect event, run in an isolate of its own: what goes wrong now is its fault. */
  readonly alone: boolean;
  /** How often it was cut short on a machine too busy to run it. */
  readonly starved: number;
}

export interface Fault extends SandboxFault {
  readonly kind: SandboxErrorKind;
}

/** What follows once a worker stopped working on a chunk. Events answered for are done. */
export interface Consequence {
  /** To be run next. */
  readonly chunks: readonly Chunk[];
  /** The fault of the (only) event of the chunk. */
  readonly verdict?: Fault;
  /** The fault of every event of the call that has no answer yet. */
  readonly rest?: Fault;
}

/**
 * Times a chunk is tried again because the machine, not the code, used up the wall time: a worker that runs when nothing
 * else wants to may get a third of a hundredth of a busy core.
 */
const MAX_STARVED = 25;

/** What V8 says where there is no room for a buffer. */
const NO_ROOM = 'Array buffer allocation failed';

/**
 * The events that failed for want of room, to be run again: it may be other programs that hold what is missing. Only an
 * isolate of its own tells what an event may have.
 */
export function crowdedOut(chunk: Chunk, entries: readonly Entry[]): readonly Chunk[] {
  if (chunk.alone) return [];
  const isCrowdedOut = ([kind, , said]: Entry) => kind !== 0 && said[0].includes(NO_ROOM);
  return entries.flatMap((entry, i) => (isCrowdedOut(entry) ? [alone(chunk.first + i)] : []));
}

/** Whom a stop is blamed on: an event is guilty only of what it did alone. */
export function afterReport(chunk: Chunk, report: Report, limits: SandboxLimits): Consequence {
  const rest = chunkOf(chunk.first + report.entries.length, chunk.count - report.entries.length);
  switch (report.stop) {
    case 'ended':
      return { chunks: rest.count > 0 ? [rest] : [] };
    case 'missing':
      return { chunks: [chunk] };
    case 'memory':
      return chunk.alone ? verdict(memoryFault(limits)) : { chunks: suspects(chunk) };
    case 'unloadable': {
      const fault = report.fault ?? { kind: 'compile', message: 'the source does not load' };
      if (fault.kind === 'timeout' && isStarved(chunk, report, limits)) return again(chunk);
      return { chunks: [], rest: fault };
    }
    case 'hung':
      if (!chunk.alone) return { chunks: suspects(chunk) };
      return isStarved(chunk, report, limits) ? again(chunk) : verdict(timeoutFault(limits));
    case 'timeout': {
      if (chunk.alone) {
        return isStarved(chunk, report, limits) ? again(chunk) : verdict(timeoutFault(limits));
      }
      const after = chunkOf(rest.first + 1, rest.count - 1);
      return { chunks: [alone(rest.first), ...(after.count > 0 ? [after] : [])] };
    }
  }
}

/** `kills`: how often in a row this call has cost its worker the life, this time included. */
export function afterKill(
  chunk: Chunk,
  kind: 'timeout' | 'memory',
  kills: number,
  limits: SandboxLimits,
): Consequence {
  const fault = kind === 'timeout' ? timeoutFault(limits) : memoryFault(limits);
  if (kills >= limits.maxKills) {
    const message = `not run: the program took down its process ${kills} times in a row`;
    return { ...(chunk.alone ? { verdict: fault } : {}), chunks: [], rest: { kind, message } };
  }
  return chunk.alone ? verdict(fault) : { chunks: suspects(chunk) };
}

export function chunkOf(first: number, count: number): Chunk {
  return { first, count, alone: false, starved: 0 };
}

function alone(index: number): Chunk {
  return { first: index, count: 1, alone: true, starved: 0 };
}

function suspects(chunk: Chunk): readonly Chunk[] {
  return Array.from({ length: chunk.count }, (_, i) => alone(chunk.first + i));
}

function again(chunk: Chunk): Consequence {
  return { chunks: [{ ...chunk, starved: chunk.starved + 1 }] };
}

/** Code in an isolate has nothing to wait for: wall time without CPU time is the machine's. */
function isStarved(chunk: Chunk, { wallMs, cpuMs }: Report, { eventMs }: SandboxLimits): boolean {
  return wallMs >= eventMs && cpuMs < eventMs / 2 && chunk.starved < MAX_STARVED;
}

function verdict(fault: Fault): Consequence {
  return { chunks: [], verdict: fault };
}

function timeoutFault(limits: SandboxLimits): Fault {
  return { kind: 'timeout', message: `took longer than ${limits.eventMs} ms` };
}

function memoryFault(limits: SandboxLimits): Fault {
  return { kind: 'memory', message: `took more memory than the ${limits.isolateMb} MB it may have` };
}
