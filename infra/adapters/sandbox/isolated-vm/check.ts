import type { SandboxFault, SandboxProgram } from '@tributary/core';
import type { SandboxLimits } from './limits.ts';
import type { Report } from './messages.ts';
import { afterKill, afterReport, type Chunk, type Consequence } from './verdict.ts';
import type { Errand, Work } from './work.ts';

/** One call of `check`: a program that is loaded once, in an isolate of its own, and not kept. */
export class Check implements Work {
  readonly program: SandboxProgram;
  readonly #limits: SandboxLimits;
  readonly #settled = Promise.withResolvers<SandboxFault | undefined>();
  #next: Chunk | undefined = { first: 0, count: 1, alone: true, starved: 0 };

  constructor(program: SandboxProgram, limits: SandboxLimits) {
    this.program = program;
    this.#limits = limits;
  }

  /** Why the program does not load; undefined when it does. */
  get fault(): Promise<SandboxFault | undefined> {
    return this.#settled.promise;
  }

  next(): Errand | undefined {
    const chunk = this.#next;
    if (chunk === undefined) return undefined;
    this.#next = undefined;
    return {
      chunk,
      task: { op: 'check', events: 0, sizes: '[]', alone: true, captureLogs: false },
      texts: '',
    };
  }

  reported({ chunk }: Errand, report: Report): void {
    if (report.stop === 'ended') this.#settled.resolve(undefined);
    else this.#follow(afterReport(chunk, report, this.#limits));
  }

  killed({ chunk }: Errand, kind: 'timeout' | 'memory'): void {
    this.#follow(afterKill(chunk, kind, 1, this.#limits));
  }

  putBack({ chunk }: Errand): void {
    this.#next = chunk;
  }

  reject(error: Error): void {
    this.#next = undefined;
    this.#settled.reject(error);
  }

  #follow({ chunks, verdict, rest }: Consequence): void {
    const fault = verdict ?? rest;
    if (fault !== undefined) this.#settled.resolve(fault);
    else this.#next = chunks[0];
  }
}
