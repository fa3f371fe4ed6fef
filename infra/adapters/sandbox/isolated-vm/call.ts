import type { SandboxInput, SandboxOutputBudget, SandboxProgram, SandboxResult } from '@tributary/core';
import type { SandboxLimits } from './limits.ts';
import type { Entry, Report } from './messages.ts';
import { seedOf } from './seed.ts';
import {
  afterKill,
  afterReport,
  type Chunk,
  type Consequence,
  chunkOf,
  crowdedOut,
  type Fault,
} from './verdict.ts';
import type { Errand, Work } from './work.ts';

/** One call of `run`: a batch on its way through a worker, chunk by chunk, until every event has its result. */
export class Call implements Work {
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
  /** Chunks that are with a worker. */
  #underWay = 0;

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

  next(): Errand | undefined {
    if (this.#budget?.hasRoom() === false) {
      if (this.#underWay === 0) this.#endEarly();
      return undefined;
    }
    const chunk = this.#chunks.shift();
    if (chunk === undefined) return undefined;
    this.#underWay++;
    let texts = '';
    const sizes: number[] = [];
    for (const { event, context, at, seed } of this.#inputs.slice(chunk.first, chunk.first + chunk.count)) {
      texts += event + context;
      sizes.push(event.length, context.length, at, seedOf(seed));
    }
    const { count: events, alone } = chunk;
    const task = { op: 'run', events, sizes: JSON.stringify(sizes), alone, captureLogs: this.#captureLogs };
    return { chunk, task: { ...task, op: 'run' }, texts };
  }

  reported({ chunk }: Errand, report: Report, body: string): void {
    this.#underWay--;
    this.#budget?.add(body.length);
    if (report.entries.length > 0) this.#killsInARow = 0;
    const crowded = crowdedOut(chunk, report.entries);
    const again = new Set(crowded.map(({ first }) => first));
    let at = 0;
    const averageMs = report.wallMs / Math.max(1, report.entries.length);
    report.entries.forEach((entry, i) => {
      const shareMs = report.entries.length === 1 ? report.wallMs : averageMs;
      const result = resultOf(entry, body, at, { shareMs, loadMs: report.loadMs });
      if (entry[0] === 0) for (const size of entry[2]) at += size;
      if (!again.has(chunk.first + i)) this.#settle(chunk.first + i, result);
    });
    this.#follow(chunk, afterReport(chunk, report, this.#limits), report.wallMs);
    if (this.#missing > 0) this.#chunks.unshift(...crowded);
  }

  killed({ chunk }: Errand, kind: 'timeout' | 'memory'): void {
    this.#underWay--;
    this.#killsInARow += 1;
    this.#follow(chunk, afterKill(chunk, kind, this.#killsInARow, this.#limits), this.#limits.eventMs);
  }

  putBack({ chunk }: Errand): void {
    this.#underWay--;
    if (this.#missing > 0) this.#chunks.unshift(chunk);
  }

  reject(error: Error): void {
    this.#chunks = [];
    this.#settled.reject(error);
  }

  #follow(chunk: Chunk, { chunks, verdict, rest }: Consequence, durationMs: number): void {
    if (verdict !== undefined) this.#settle(chunk.first, failure(verdict, durationMs));
    if (rest !== undefined) {
      this.#chunks = [];
      this.#results.forEach((_, i) => {
        this.#settle(i, failure(rest, 0));
      });
    }
    if (this.#missing > 0) this.#chunks.unshift(...chunks);
  }

  /** With the results of the first events; what is behind a gap comes again. */
  #endEarly(): void {
    this.#chunks = [];
    const gap = this.#results.indexOf(undefined);
    const first = gap < 0 ? this.#results : this.#results.slice(0, gap);
    this.#settled.resolve(first.filter((one) => one !== undefined));
  }

  /** The first result of an event stays: a chunk may come back late, after the rest of its call was given up. */
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

/** The isolate's clock counts whole milliseconds: what took none of them gets its share of the whole. */
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
