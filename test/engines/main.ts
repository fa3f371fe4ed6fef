import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeMachine, enginesOf, type RunningEngine } from './index.ts';

const LOOK_EVERY_MS = 500;

/**
 * `npm run engines`: every engine of the cluster wiring for a developer. Standard output has the environment
 * to use, one `KEY=value` a line, and then `ready`; everything else is on standard error and in files. An
 * engine that ends or is killed is started again on its port and data, as a supervisor would. The command runs
 * until SIGTERM or SIGINT, and then ends the engines and removes their data.
 */
async function main(): Promise<number> {
  const stopped = new Promise<'stopped'>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => resolve('stopped'));
  });
  const logFolder = mkdtempSync(join(tmpdir(), 'tributary-engines-'));
  console.error(`Starting the engines; their logs are in ${logFolder}`);
  const starts = startAll(logFolder);
  const outcomes = Object.values(starts);
  const failed = await Promise.race([stopped, firstFailure(outcomes)]);
  if (failed === undefined) {
    const engines = await Promise.all(outcomes);
    for (const { name, url, pid } of engines) console.error(`${name} at ${url} is process ${pid}`);
    for (const [variable, engine] of Object.entries(starts)) console.log(`${variable}=${(await engine).url}`);
    console.log('TRIBUTARY_EGRESS_ALLOW=127.0.0.0/8');
    console.log('ready');
    const ended = new AbortController();
    const supervised = engines.map((engine) => keepRunning(engine, ended.signal));
    await stopped;
    ended.abort();
    await Promise.all(supervised);
  }
  await stopAll(outcomes);
  if (failed instanceof Error) {
    console.error(String(failed));
    return 1;
  }
  await rm(logFolder, { recursive: true });
  return 0;
}

/** By the variable that selects each. */
function startAll(logFolder: string): Readonly<Record<string, Promise<RunningEngine>>> {
  const { kafka, redis, schemaRegistry, elasticsearch } = enginesOf(describeMachine(process.env));
  return {
    KAFKA_BROKERS: kafka.start({ logFolder }),
    REDIS_URL: redis.start({ logFolder }),
    SCHEMA_REGISTRY_URL: schemaRegistry.start({ logFolder }),
    ELASTICSEARCH_URL: elasticsearch.start({ logFolder }),
  };
}

/** Restarts the engine whenever it has ended, until the signal; a failed restart is reported and tried again. */
async function keepRunning(engine: RunningEngine, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await sleep(LOOK_EVERY_MS);
    if (engine.isRunning || signal.aborted) continue;
    console.error(`${engine.name} has ended and is started again`);
    try {
      await engine.restart();
      console.error(`${engine.name} answers again, as process ${engine.pid}`);
    } catch (error) {
      console.error(String(error));
    }
  }
}

/** Undefined once all have started. */
async function firstFailure(starts: readonly Promise<RunningEngine>[]): Promise<Error | undefined> {
  try {
    await Promise.all(starts);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

/** Stops engines that are still starting, too. */
async function stopAll(starts: readonly Promise<RunningEngine>[]): Promise<void> {
  const outcomes = await Promise.allSettled(starts);
  await Promise.all(
    outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value.stop() : undefined)),
  );
}

process.exitCode = await main();
