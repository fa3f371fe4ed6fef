import type {
  SandboxErrorKind,
  SandboxFault,
  SandboxInput,
  SandboxOutputBudget,
  SandboxProgram,
  SandboxResult,
} from '@tributary/core';
import type { Entry, Report, SandboxLimits, WorkerRequest } from './protocol.ts';

/** The message that sends one chunk to a worker. */
export interface Task {
  readonly chunk: Chunk;
  readonly request: Omit<WorkerRequest, 'program' | 'owner' | 'source'>;
  readonly texts: string;
}

/** A call of `run` or `check`, carried out task by task, in turns with other calls. */
export interface SandboxCall {
  readonly program: SandboxProgram;
  /** The next task; undefined if all are in flight or done. */
  next(): Task | undefined;
  /** `body`: the outputs, whose lengths are in the report. */
  reported(task: Task, report: Report, body: string): void;
  /** The worker was killed, or died, because of this task. */
  killed(task: Task, kind: 'timeout' | 'memory'): void;
  /** The task was not begun: its worker died because of another one. */
  putBack(task: Task): void;
  /** The call fails as a whole: the sandbox is closed, or no worker can be started. */
  reject(error: Error): void;
}

/** A call of `run`: a batch of events that goes to a worker chunk by chunk, until every event has its result. */
export class RunCall implements SandboxCall {
  readonly program: SandboxProgram;
  readonly #inputs: readonly SandboxInput[];
  readonly #captureLogs: boolean;
  readonly #limits: SandboxLimits;
  readonly #budget: SandboxOutputBudget | undefined;
  readonly #results: (SandboxResult | undefined)[];
  readonly #settled = Promise.withResolvers<readonly SandboxResult[]>();
  #chunks: Chunk[];
  #missing: number;
  #killsInARow = 0;
  /** Chunks in flight. */
  #inFlight = 0;

  constructor(
    program: SandboxProgram,
    inputs: readonly SandboxInput[],
    captureLogs: boolean,
    limits: SandboxLimits,
    budget?: SandboxOutputBudget,
  ) {
    this.program = program;
    this.#inputs = inputs;
    this.#captureLogs = captureLogs;
    this.#limits = limits;
    this.#budget = budget;
    this.#results = Array.from({ length: inputs.length }, () => undefined);
    this.#missing = inputs.length;
    this.#chunks = chunksOf(inputs, limits);
  }

  get results(): Promise<readonly SandboxResult[]> {
    return this.#settled.promise;
  }

  next(): Task | undefined {
    if (this.#budget?.hasRoom() === false) {
      if (this.#inFlight === 0) this.#endEarly();
      return undefined;
    }
    const chunk = this.#chunks.shift();
    if (chunk === undefined) return undefined;
    this.#inFlight++;
    let texts = '';
    const sizes: number[] = [];
    for (const { event, context, at, seed } of this.#inputs.slice(chunk.first, chunk.first + chunk.count)) {
      texts += event + context;
      sizes.push(event.length, context.length, at, seedOf(seed));
    }
    const { count: events, alone } = chunk;
    const limitMs = limitMsOf(chunk, this.#limits);
    const request = { op: 'run', events, sizes: JSON.stringify(sizes), alone, limitMs } as const;
    return { chunk, request: { ...request, captureLogs: this.#captureLogs }, texts };
  }

  reported({ chunk }: Task, report: Report, body: string): void {
    this.#inFlight--;
    this.#budget?.add(body.length);
    if (report.entries.length > 0) this.#killsInARow = 0;
    const rerun = shortOfMemory(chunk, report.entries);
    const again = new Set(rerun.map(({ first }) => first));
    let at = 0;
    const shareMs = report.wallMs / Math.max(1, report.entries.length);
    report.entries.forEach((entry, i) => {
      const result = resultOf(entry, body, at, { shareMs, loadMs: report.loadMs });
      if (entry[0] === 0) for (const size of entry[2]) at += size;
      if (!again.has(chunk.first + i)) this.#settle(chunk.first + i, result);
    });
    this.#apply(chunk, afterReport(chunk, report, this.#limits), report.wallMs);
    if (this.#missing > 0) this.#chunks.unshift(...rerun);
  }

  killed({ chunk }: Task, kind: 'timeout' | 'memory'): void {
    this.#inFlight--;
    this.#killsInARow += 1;
    this.#apply(chunk, afterKill(chunk, kind, this.#killsInARow, this.#limits), this.#limits.eventMs);
  }

  putBack({ chunk }: Task): void {
    this.#inFlight--;
    if (this.#missing > 0) this.#chunks.unshift(chunk);
  }

  reject(error: Error): void {
    this.#chunks = [];
    this.#settled.reject(error);
  }

  #apply(chunk: Chunk, { chunks, fault, restFault }: NextSteps, durationMs: number): void {
    if (fault !== undefined) this.#settle(chunk.first, failure(fault, durationMs));
    if (restFault !== undefined) {
      this.#chunks = [];
      this.#results.forEach((_, i) => {
        this.#settle(i, failure(restFault, 0));
      });
    }
    if (this.#missing > 0) this.#chunks.unshift(...chunks);
  }

  /** Resolves with the results of the first events, up to the first missing one. The caller passes the others again. */
  #endEarly(): void {
    this.#chunks = [];
    const gap = this.#results.indexOf(undefined);
    const first = gap < 0 ? this.#results : this.#results.slice(0, gap);
    this.#settled.resolve(first.filter((one) => one !== undefined));
  }

  /** An event keeps its first result: a chunk may come back late, after the rest of its call has failed. */
  #settle(index: number, result: SandboxResult): void {
    if (this.#results[index] !== undefined) return;
    this.#results[index] = result;
    this.#missing -= 1;
    if (this.#missing === 0) this.#settled.resolve(this.#results.filter((one) => one !== undefined));
  }
}

function chunksOf(inputs: readonly SandboxInput[], limits: SandboxLimits): Chunk[] {
  const chunks: Chunk[] = [];
  let first = 0;
  let chars = 0;
  inputs.forEach(({ event, context }, i) => {
    const more = event.length + context.length;
    if (i > first && (i - first >= limits.chunkEvents || chars + more > limits.chunkChars)) {
      chunks.push(chunkOf(first, i - first));
      first = i;
      chars = 0;
    }
    chars += more;
  });
  chunks.push(chunkOf(first, inputs.length - first));
  return chunks;
}

function failure(fault: Fault, durationMs: number): SandboxResult {
  return { ok: false, ...fault, logs: [], durationMs, loadMs: 0 };
}

/** The isolate measures whole milliseconds. An event that took none gets its share of the chunk's time. */
function resultOf(
  entry: Entry,
  body: string,
  from: number,
  { shareMs, loadMs }: { readonly shareMs: number; readonly loadMs: number },
): SandboxResult {
  const logs = (entry[3] ?? []).map(([level, text]) => ({ level, text }));
  const run = { logs, durationMs: Math.max(entry[1], shareMs), loadMs };
  if (entry[0] !== 0) {
    const [message, line, column] = entry[2];
    return {
      ok: false,
      kind: entry[0],
      message,
      ...(line > 0 && { line }),
      ...(column > 0 && { column }),
      ...run,
    };
  }
  let at = from;
  const outputs = entry[2].map((size) => {
    at += size;
    return body.slice(at - size, at);
  });
  return { ok: true, outputs, ...run };
}

/** A call of `check`: loads a program once, in an isolate of its own that is discarded. */
export class CheckCall implements SandboxCall {
  readonly program: SandboxProgram;
  readonly #limits: SandboxLimits;
  readonly #settled = Promise.withResolvers<SandboxFault | undefined>();
  #next: Chunk | undefined = { first: 0, count: 1, alone: true, starved: 0 };

  constructor(program: SandboxProgram, limits: SandboxLimits) {
    this.program = program;
    this.#limits = limits;
  }

  /** Why the program does not load; undefined if it does. */
  get fault(): Promise<SandboxFault | undefined> {
    return this.#settled.promise;
  }

  next(): Task | undefined {
    const chunk = this.#next;
    if (chunk === undefined) return undefined;
    this.#next = undefined;
    const limitMs = limitMsOf(chunk, this.#limits);
    return {
      chunk,
      request: { op: 'check', events: 0, sizes: '[]', alone: true, captureLogs: false, limitMs },
      texts: '',
    };
  }

  reported({ chunk }: Task, report: Report): void {
    if (report.stop === 'ended') this.#settled.resolve(undefined);
    else this.#apply(afterReport(chunk, report, this.#limits));
  }

  killed({ chunk }: Task, kind: 'timeout' | 'memory'): void {
    this.#apply(afterKill(chunk, kind, 1, this.#limits));
  }

  putBack({ chunk }: Task): void {
    this.#next = chunk;
  }

  reject(error: Error): void {
    this.#next = undefined;
    this.#settled.reject(error);
  }

  #apply({ chunks, fault, restFault }: NextSteps): void {
    const found = fault ?? restFault;
    if (found !== undefined) this.#settled.resolve(found);
    else this.#next = chunks[0];
  }
}

/** A seed of 53 bits from a name: FNV-1a twice, with different initial values. */
function seedOf(name: string): number {
  let low = 0x811c9dc5;
  let high = 0x01000193;
  for (let i = 0; i < name.length; i++) {
    const code = name.charCodeAt(i);
    low = Math.imul(low ^ code, 0x01000193);
    high = Math.imul(high ^ code, 0x5bd1e995);
  }
  return ((high >>> 0) & 0x1fffff) * 0x100000000 + (low >>> 0);
}

/** Consecutive events of a call that are sent to a worker together. */
interface Chunk {
  /** Index of the first event. */
  readonly first: number;
  readonly count: number;
  /** A single suspect event, run in an isolate of its own: a failure is its own fault. */
  readonly alone: boolean;
  /** How often the run was stopped because the machine was too busy to run it. */
  readonly starved: number;
}

interface Fault extends SandboxFault {
  readonly kind: SandboxErrorKind;
}

/** The work left after a worker has stopped on a chunk. Events with an answer are done. */
interface NextSteps {
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
function afterKill(
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
