import { describeMachine, enginesOf, type RunningEngine } from '../engines/index.ts';

/** The engines of the rows that need them. */
export interface BenchEngines {
  readonly kafka: RunningEngine;
  readonly redis: RunningEngine;
}

/** Engines that start with the first suite that asks for them, and serve all that follow. */
export class LazyEngines {
  #started: Promise<BenchEngines> | undefined;

  /** Rejects with what is missing on this machine, or with the end of the log of what did not come up. */
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
