import { ENGINE_VARIABLES, type Engines, engines } from '../helpers/engines.ts';
import { ownEngines } from '../helpers/own-engines.ts';
import { withDocumentedRights } from '../helpers/redis.ts';
import type { RunningEngine } from './index.ts';

/**
 * Set once a run is known to have no engines: this setup runs for each of vitest's projects, and warns only
 * once.
 */
const TOLD = 'none';

/**
 * Starts the engines shared by the test files, once for the whole run, and passes their addresses in the
 * environment, which the workers inherit. Engines already named in the environment are used as they are.
 */
export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (engines() !== undefined) return undefined;
  const inCi = process.env.CI !== undefined;
  const wanted = process.env.TRIBUTARY_TEST_ENGINES;
  if (wanted === TOLD && !inCi) return undefined;
  if (wanted === '0' && !inCi) return skip('TRIBUTARY_TEST_ENGINES=0');
  const started = await startAll();
  if ('reasons' in started) {
    if (inCi) throw new Error(`the engines could not be started:\n${started.reasons.join('\n')}`);
    return skip(started.reasons.join('; '));
  }
  for (const [name, variable] of Object.entries(ENGINE_VARIABLES) as [keyof Engines, string][])
    process.env[variable] = started.running[name].url;
  process.env[ENGINE_VARIABLES.redisUrl] = await withDocumentedRights(started.running.redisUrl.url);
  return () => discard(Object.values(started.running));
}

function skip(reason: string): undefined {
  process.env.TRIBUTARY_TEST_ENGINES = TOLD;
  console.warn(`NO ENGINES, every test that needs one is SKIPPED: ${reason}`);
}

type Started =
  | { readonly running: Readonly<Record<keyof Engines, RunningEngine>> }
  | { readonly reasons: readonly string[] };

async function startAll(): Promise<Started> {
  const { kafka, redis, schemaRegistry, elasticsearch } = ownEngines();
  const starts = [kafka.start(), redis.start(), schemaRegistry.start(), elasticsearch.start()] as const;
  const outcomes = await Promise.allSettled(starts);
  const reasons = outcomes.flatMap((outcome) =>
    outcome.status === 'rejected' ? [String(outcome.reason)] : [],
  );
  if (reasons.length > 0) {
    await discard(outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : [])));
    return { reasons };
  }
  const [kafkaBrokers, redisUrl, schemaRegistryUrl, elasticsearchUrl] = await Promise.all(starts);
  return { running: { kafkaBrokers, redisUrl, schemaRegistryUrl, elasticsearchUrl } };
}

/** Kills the engines: their data are not needed any more. */
async function discard(running: readonly RunningEngine[]): Promise<void> {
  await Promise.all(
    running.map(async (engine) => {
      await engine.kill();
      await engine.stop();
    }),
  );
}
