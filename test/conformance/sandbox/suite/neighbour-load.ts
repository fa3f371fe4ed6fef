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

/** The latencies of the neighbour without hostile code and beside it. */
export interface NeighbourFigures {
  readonly quiet: Latencies;
  readonly beside: Latencies;
}

/** The load of the machine while an event of the neighbour is due. */
export type Turn = 'warming up' | 'quiet' | 'beside';

/**
 * An honest workspace: sends one event every few ms, on schedule even if earlier ones are late, and measures
 * latency from the scheduled time. So waiting behind a stuck event counts too. Latencies are kept by turn: other
 * work of the machine at the time is in all of them.
 */
export class NeighbourLoad {
  readonly #sandbox: Sandbox;
  readonly #program = program(HONEST, 'neighbour');
  #stopped = false;
  #running: Promise<void> | undefined;
  readonly #measured = { 'warming up': newTurn(), quiet: newTurn(), beside: newTurn() };
  turn: Turn = 'warming up';

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox;
  }

  start(): void {
    this.#running = this.#load();
  }

  async stop(): Promise<NeighbourFigures> {
    this.#stopped = true;
    if (this.#running === undefined) throw new Error('not started');
    await this.#running;
    const { quiet, beside } = this.#measured;
    return { quiet: latenciesOf(quiet), beside: latenciesOf(beside) };
  }

  async #load(): Promise<void> {
    const under: Promise<void>[] = [];
    const send = async (due: number, n: number) => {
      const measured = this.#measured[this.turn];
      const [result] = await this.#sandbox.run(this.#program, [input(n)]);
      measured.latencies.push(performance.now() - due);
      if (result?.ok !== true) measured.failed += 1;
    };
    for (let due = performance.now(), n = 0; !this.#stopped; due += EVERY_MS, n++) {
      const wait = due - performance.now();
      if (wait > 0) await sleep(wait);
      // Excludes the lateness of the timer itself.
      under.push(send(Math.max(due, performance.now()), n));
    }
    await Promise.all(under);
  }
}

interface Measured {
  readonly latencies: number[];
  failed: number;
}

function newTurn(): Measured {
  return { latencies: [], failed: 0 };
}

function latenciesOf({ latencies, failed }: Measured): Latencies {
  const sorted = latencies.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? 0;
  return { p50: at(0.5), p99: at(0.99), runs: sorted.length, failed };
}
