import { describeMachine, enginesOf, type RunningEngine } from '../engines/index.ts';

/** The engines of the rows that need them. */
export interface BenchEngines {
  readonly kafka: RunningEngine;
  readonly redis: RunningEngine;
}

/** Engines that start with the first suite that needs them, and serve all later ones. */
export class LazyEngines {
  #started: Promise<BenchEngines> | undefined;

  /**
   * Rejects with the name of a missing requirement, or with the end of the log of an engine that did not
   * start.
   */
  get(): Promise<BenchEngines> {
    this.#started ??= start();
    return this.#started;
  }

  async stop(): Promise<void> {
    const engines = await this.#started?.catch(() => undefined);
    await engines?.kafka.stop();
    await engines?.redis.stop();
  }
}

async function start(): Promise<BenchEngines> {
  const machine = enginesOf(describeMachine(process.env));
  const kafka = await machine.kafka.start();
  try {
    return { kafka, redis: await machine.redis.start() };
  } catch (error) {
    await kafka.stop();
    throw error;
  }
}
