import { setTimeout as sleep } from 'node:timers/promises';
import type { Sandbox } from '@tributary/core';
import { HONEST, input, program } from './transformations.ts';

/** Time between the runs, ms. */
const EVERY_MS = 10;

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
  #stopped = false;
  #running: Promise<Latencies> | undefined;

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox;
  }

  async run(ms: number): Promise<Latencies> {
    this.start();
    await sleep(ms);
    return this.stop();
  }

  start(): void {
    this.#stopped = false;
    this.#running = this.#load();
  }

  async stop(): Promise<Latencies> {
    this.#stopped = true;
    if (this.#running === undefined) throw new Error('not started');
    return this.#running;
  }

  async #load(): Promise<Latencies> {
    const latencies: number[] = [];
    const under: Promise<void>[] = [];
    let failed = 0;
    const send = async (due: number, n: number) => {
      const [result] = await this.#sandbox.run(this.#program, [input(n)]);
      latencies.push(performance.now() - due);
      if (result?.ok !== true) failed += 1;
    };
    for (let due = performance.now(), n = 0; !this.#stopped; due += EVERY_MS, n++) {
      const wait = due - performance.now();
      if (wait > 0) await sleep(wait);
      // Excludes the lateness of the timer itself.
      under.push(send(Math.max(due, performance.now()), n));
    }
    await Promise.all(under);
    const sorted = latencies.toSorted((a, b) => a - b);
    const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? 0;
    return { p50: at(0.5), p99: at(0.99), runs: sorted.length, failed };
  }
}
