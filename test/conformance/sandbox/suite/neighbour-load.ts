import { setTimeout as sleep } from 'node:timers/promises';
import type { Sandbox } from '@tributary/core';
import { HONEST, input, program } from './transformations.ts';

/** Time between the runs, ms. */
const EVERY_MS = 10;
const WARMING_MS = 1_000;

export interface Latencies {
  readonly p50: number;
  readonly p99: number;
  readonly runs: number;
  readonly failed: number;
}

/**
 * An honest workspace: sends one event every few ms, on schedule even if earlier ones are late, and measures
 * latency from the scheduled time. So waiting behind a stuck event counts too.
 */
export class NeighbourLoad {
  readonly #sandbox: Sandbox;
  readonly #program = program(HONEST, 'neighbour');
  readonly #running: Promise<void>;
  readonly #underWay = new Set<Promise<void>>();
  readonly #warmedUp = Promise.withResolvers<void>();
  #stopped = false;
  /** Events due before are not measured. */
  #since = 0;
  #latencies: number[] = [];
  #failed = 0;

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox;
    this.#running = this.#load();
  }

  /** Once a worker runs, and the code for it is compiled. */
  get warmedUp(): Promise<void> {
    return this.#warmedUp.promise;
  }

  /** Measures from now on. */
  reset(): void {
    this.#since = performance.now();
    this.#latencies = [];
    this.#failed = 0;
  }

  /** What was measured since `reset`. */
  async latencies(): Promise<Latencies> {
    await Promise.all(this.#underWay);
    const sorted = this.#latencies.toSorted((a, b) => a - b);
    const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? 0;
    return { p50: at(0.5), p99: at(0.99), runs: sorted.length, failed: this.#failed };
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
    await Promise.all(this.#underWay);
  }

  async #load(): Promise<void> {
    await this.#sandbox.run(this.#program, [input(0)]);
    setTimeout(() => this.#warmedUp.resolve(), WARMING_MS);
    for (let due = performance.now(), n = 0; !this.#stopped; due += EVERY_MS, n++) {
      const wait = due - performance.now();
      if (wait > 0) await sleep(wait);
      // Excludes the lateness of the timer itself.
      const run = this.#send(Math.max(due, performance.now()), n).finally(() => this.#underWay.delete(run));
      this.#underWay.add(run);
    }
  }

  async #send(due: number, n: number): Promise<void> {
    const [result] = await this.#sandbox.run(this.#program, [input(n)]);
    if (due < this.#since) return;
    this.#latencies.push(performance.now() - due);
    if (result?.ok !== true) this.#failed += 1;
  }
}
