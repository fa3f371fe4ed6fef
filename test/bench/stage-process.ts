import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createConnectors } from '@tributary/connectors';
import {
  type BatchStage,
  createContractEvaluator,
  type Deduplicator,
  type EventLog,
  publishProfileChanges,
  type Stage,
} from '@tributary/core';
import {
  createLogger,
  createMetrics,
  openEventLog,
  openInProcessLiveTail,
  openIsolatedVmSandbox,
  openLogCatalog,
  openRedisDeduplicator,
  openSqliteCounters,
  openSqliteDeduplicator,
  openSqliteHistory,
  openSqliteProfileStore,
  readConfig,
} from '@tributary/infra';
import { createPipeline, DEFAULT_PIPELINE, RunMetrics } from '@tributary/processors';
import { freshPrefix } from '../helpers/engines.ts';
import type { StageTask, StageTimes, Took } from './stage-rows.ts';

const SETTLE_POLL_MS = 5;

/** Prefix of the groups and dedupe claims of this process. */
const fresh = freshPrefix();
const clock = Date.now;
const config = readConfig(process.env);
const logger = createLogger(config.logLevel, { part: 'stages' });
const metrics = createMetrics({ processMetrics: false });
const tools = { logger, metrics };
const log = await openEventLog(config, tools);
const catalog = openLogCatalog({ log, logger });
const sandbox = () => openIsolatedVmSandbox({ processes: config.sandboxProcesses, ...tools });
const ports = {
  catalog,
  contracts: createContractEvaluator(),
  counters: openSqliteCounters({ folder: join(config.dataFolder, 'funnel'), clock }),
  history: openSqliteHistory({
    folder: join(config.dataFolder, 'history'),
    clock,
    retentionMs: config.retentionMs,
  }),
  liveTail: openInProcessLiveTail({ logger }),
  profiles: await openSqliteProfileStore({
    folder: join(config.dataFolder, 'profiles'),
    clock,
    retentionMs: config.retentionMs,
    publish: publishProfileChanges(log),
    ...tools,
  }),
  sandbox: sandbox(),
  slowSandbox: sandbox(),
  connectors: createConnectors({ egressAllow: [], dataFolder: config.dataFolder, clock, ...tools }),
};
await catalog.catchUp(config.startTimeoutMs);

// Measures one stage against a baseline in one process, in alternation: a bare copy of its input, or the same
// stage over another backlog. Each run works its backlog off from the start as a new group. Takes one
// argument, the task as JSON, and prints the figures of each run as JSON.
const task = JSON.parse(process.argv[2] ?? '{}') as StageTask;
const times: StageTimes = { stage: [], baseline: [] };
for (let round = 0; round < task.rounds; round++) {
  const stage = await pipelineStage(task.receivedTopics, `${round}`);
  if (task.copyTo !== undefined) times.baseline.push(await workOff(copyOf(stage, task.copyTo), `${round}`));
  if (task.otherTopics !== undefined) {
    const group = `${round}.other`;
    times.baseline.push(await workOff(await pipelineStage(task.otherTopics, group), group));
  }
  times.stage.push(await workOff(stage, `${round}`));
}
process.stdout.write(`${JSON.stringify(times)}\n`);
process.exit(0);

/** The stage over message ids without dedupe claims. */
async function pipelineStage(receivedTopics: readonly string[], group: string): Promise<Stage> {
  const deduplicator = await openFreshDeduplicator(group);
  const stages = createPipeline({
    log,
    ...ports,
    deduplicator,
    reevaluations: deduplicator,
    runMetrics: new RunMetrics({ counters: ports.counters, clock, metrics, logger }),
    unseal: () => {
      throw new Error('nothing is delivered here');
    },
    clock,
    elapsed: () => performance.now(),
    ...tools,
    receivedTopics,
  });
  const found = stages.find((stage) => stage.name === task.stage);
  if (found === undefined) throw new Error(`there is no stage ${task.stage}`);
  return found;
}

function openFreshDeduplicator(group: string): Promise<Deduplicator> | Deduplicator {
  const { redisUrl, dataFolder, prefix, dedupeWindowMs: windowMs } = config;
  if (redisUrl !== undefined)
    return openRedisDeduplicator({ url: redisUrl, prefix: `${prefix}${fresh}${group}.`, windowMs, logger });
  return openSqliteDeduplicator({ folder: join(dataFolder, 'dedupe', group), windowMs, clock });
}

/** Copies entries unchanged. Packed records have no key, so their copies are spread. */
function copyOf({ reads }: Stage, topic: string): BatchStage {
  return {
    kind: 'batch',
    name: 'copy',
    reads,
    writes: [topic],
    maxEntries: DEFAULT_PIPELINE.batchEntries,
    process: async ({ entries }) =>
      entries.map(({ key, value, headers, position: { offset, index } }) => ({
        topic,
        key: key === '' ? `${offset}/${index}` : key,
        value,
        headers,
      })),
  };
}

/** From the first entry dispatched to the stage to the last commit. */
async function workOff(stage: Stage, group: string): Promise<Took> {
  const watched = watch({ ...stage, name: `${fresh}${stage.name}.${group}` });
  const run = await log.run(watched.stage);
  while (watched.entries() < task.events || (await lagOf(run)) > 0) await sleep(SETTLE_POLL_MS);
  const took = watched.took();
  await run.stop();
  return took;
}

async function lagOf(run: Awaited<ReturnType<EventLog['run']>>): Promise<number> {
  return (await run.lag()).reduce((sum, { lag }) => sum + lag, 0);
}

/** Wraps the stage to report how many entries it received, and the resources used since the first. */
function watch(stage: Stage): { readonly stage: Stage; entries(): number; took(): Took } {
  let entries = 0;
  let first: { readonly at: number; readonly cpu: NodeJS.CpuUsage } | undefined;
  const handed = (count: number) => {
    first ??= { at: performance.now(), cpu: process.cpuUsage() };
    entries += count;
  };
  const watched: Stage =
    stage.kind === 'batch'
      ? {
          ...stage,
          process(batch, context) {
            handed(batch.entries.length);
            return stage.process(batch, context);
          },
        }
      : {
          ...stage,
          handle(entry, context) {
            handed(1);
            return stage.handle(entry, context);
          },
        };
  return {
    stage: watched,
    entries: () => entries,
    took() {
      const { user, system } = process.cpuUsage(first?.cpu);
      return {
        seconds: (performance.now() - (first?.at ?? Number.NaN)) / 1_000,
        cpuSeconds: (user + system) / 1e6,
      };
    },
  };
}
