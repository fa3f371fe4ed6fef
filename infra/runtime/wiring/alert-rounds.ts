import type { Catalog, Counters, EventLog, Logger, Metrics, StageRun } from '@tributary/core';
import { AlertRounds, stageReads } from '@tributary/processors';
import type { Config } from '../config/settings.ts';
import { StageProgressReader } from '../observability/stage-progress.ts';
import { receivedTopics } from './ports/event-log.ts';

interface AlertRoundsTools {
  readonly log: EventLog;
  readonly catalog: Catalog;
  readonly counters: Counters;
  /** The run of the stage `notice`, whose only partition decides which process evaluates. */
  readonly noticeRun: Pick<StageRun, 'owned'>;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** The stages that count events, see `CountProgress`. */
const COUNTING: readonly string[] = ['validate', 'funnel'];

/** Starts the evaluation of alerts, in the process that has the partition of the stage `notice`. */
export function startAlertRounds(
  config: Config,
  { log, catalog, counters, noticeRun, logger, metrics }: AlertRoundsTools,
): AlertRounds {
  const reads = stageReads({ receivedTopics: receivedTopics(config), retrySteps: config.retrySchedule });
  const counting = new StageProgressReader(
    log,
    reads.filter(({ stage }) => COUNTING.includes(stage)),
  );
  const rounds = new AlertRounds({
    catalog,
    read: (query) => counters.funnel(query),
    samples: () => counting.sample(),
    isOwner: () => noticeRun.owned().length > 0,
    clock: Date.now,
    elapsed: () => performance.now(),
    logger,
    metrics,
    roundMs: config.alertRoundMs,
    everyMs: config.alertEveryMs,
  });
  rounds.begin();
  return rounds;
}
