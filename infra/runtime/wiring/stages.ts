import { type Logger, type Metrics, messageOf, type Stage, type StageRun } from '@tributary/core';
import type { InHandTable } from '../../adapters/event-log/suspects/in-hand-table.ts';
import { EngineHealth } from '../observability/engine-health.ts';
import { catalogReadiness, type Readiness } from '../observability/operations.ts';
import { type StartDeadline, untilAvailable } from '../process/await-engines.ts';
import { CleanupStack } from '../process/cleanup-stack.ts';
import type { StagesStart } from '../stages/messages.ts';
import { watchConfiguredEngines } from './engines.ts';
import { checkStores } from './installation.ts';
import { openPipeline } from './pipeline.ts';

/** The stages of this process and the ports they use. */
export interface RunningStages {
  /** Rejects when a stage died. */
  readonly ended: Promise<unknown>;
  readiness(): Readiness;
  /** Sets the lag figures to what they are now, in the order of the pipeline: when all are 0, nothing is under way. */
  reportLag(): Promise<void>;
  stop(): Promise<void>;
}

interface StagesTools {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Where it is told which entries are in hand. */
  readonly inHand: InHandTable;
}

/** Opens every port the pipeline needs and runs its stages, all or those that were chosen. */
export async function openStages(
  start: StagesStart,
  tools: StagesTools,
  deadline: StartDeadline,
): Promise<RunningStages> {
  const cleanup = new CleanupStack();
  try {
    return await open(start, tools, deadline, cleanup);
  } catch (error) {
    await cleanup.close();
    throw error;
  }
}

async function open(
  { config, stages, liveLink }: StagesStart,
  { logger, metrics, inHand }: StagesTools,
  deadline: StartDeadline,
  cleanup: CleanupStack,
): Promise<RunningStages> {
  const health = new EngineHealth({ metrics, part: 'stages' });
  const { log, catalog, counters, history, pipeline, openProfiles } = await openPipeline(
    config,
    { logger, metrics, health, liveLink, inHand },
    deadline,
    cleanup,
  );
  cleanup.use(watchConfiguredEngines(config, { log, counters, history }, health));
  // A process that does not know the contracts and rules yet takes no partition from one that does.
  const check = cleanup.use(await checkStores(config, { catalog, log, logger }, deadline, openProfiles));
  const runs: StageRun[] = [];
  const chosen = pipeline.filter(({ name }) => stages === undefined || stages.includes(name));
  for (const stage of chosen) {
    runs.push(await untilAvailable(`running the stage ${stage.name}`, deadline, () => log.run(stage)));
  }
  return {
    ended: Promise.race([Promise.all(runs.map((run) => run.ended)), check.failed]),
    readiness: () => catalogReadiness(catalog, health.status()),
    reportLag: () => reportLag(chosen, runs, { logger, metrics }),
    async stop() {
      await Promise.all(runs.map((run) => run.stop()));
      await cleanup.close();
    },
  };
}

/** Where the log does not answer, the gauges keep their values, and the time at which they were known. */
async function reportLag(
  stages: readonly Stage[],
  runs: readonly StageRun[],
  { logger, metrics }: Pick<StagesTools, 'logger' | 'metrics'>,
): Promise<void> {
  const since = Date.now();
  let isKnown = true;
  for (const [i, run] of runs.entries()) {
    const stage = stages[i]?.name ?? '';
    try {
      for (const { topic, partition, lag, events, isOwned, oldestAt } of await run.lag()) {
        const labels = { stage, topic, partition: String(partition) };
        metrics.gauge('tributary_stage_lag_records', lag, labels);
        metrics.gauge('tributary_stage_lag_events', events, labels);
        // The owner alone knows the age, and of what it has read.
        if (isOwned && (lag === 0 || oldestAt !== undefined)) {
          const seconds = oldestAt === undefined ? 0 : Math.max(0, Date.now() - oldestAt) / 1_000;
          metrics.gauge('tributary_stage_lag_seconds', seconds, labels);
        } else metrics.removeGauge('tributary_stage_lag_seconds', labels);
      }
    } catch (error) {
      isKnown = false;
      logger.warn(
        { stage, error: messageOf(error) },
        'the lag of a stage is unknown; its last value is kept',
      );
    }
  }
  if (isKnown) metrics.gauge('tributary_stage_lag_collected_timestamp_seconds', since / 1_000);
}
