import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type EngineReport,
  type Logger,
  messageOf,
  newId,
  PROCESS_REPORT_EVERY_MS,
  type ProcessBoard,
  type ProcessStage,
} from '@tributary/core';
import type { Config } from '../config/settings.ts';
import { type BuildRole, buildOf } from './build-info.ts';
import { type EngineVersions, readEngineVersions } from './engine-versions.ts';
import type { Readiness } from './operations.ts';

/** The engines that `/readyz` reports, by their names there. */
const ENGINES = ['kafka', 'redis', 'elasticsearch'] as const;
/** How often the versions of the engines are read, ms: they may be upgraded below a running process. */
const VERSIONS_EVERY_MS = 10 * 60_000;
/** How long an ending process waits for the board, ms. */
const WITHDRAW_WITHIN_MS = 1_000;

export interface ReportedProcess {
  readonly role: BuildRole;
  readonly config: Config;
  readonly logger: Logger;
  /** The current state. It must not wait for anything. */
  readiness(): Readiness;
  /** The stages of this process and what they own; none in a gateway. */
  stages?(): readonly ProcessStage[];
}

/**
 * Reports this process every few seconds until it is closed, then withdraws the report. To be begun once the stores were
 * checked: the board of another installation must not be written to.
 */
export function reportProcess(
  board: ProcessBoard,
  { role, config, logger, readiness, stages }: ReportedProcess,
): { close(): Promise<void> } {
  const fixed = { process: newId(), role, host: hostname(), pid: process.pid, ...buildOf() };
  const startedAt = Date.now();
  let versions: EngineVersions = {};
  let versionsReadAt = Number.NEGATIVE_INFINITY;
  let reporting: Promise<void> | undefined;
  let isDown = false;

  async function readVersions(): Promise<void> {
    versionsReadAt = Date.now();
    versions = await readEngineVersions(config, logger);
  }

  async function report(): Promise<void> {
    if (Date.now() - versionsReadAt > VERSIONS_EVERY_MS) void readVersions();
    const { ready, checks } = readiness();
    try {
      await board.report({
        ...fixed,
        started_at: startedAt,
        at: Date.now(),
        ready,
        checks,
        memory_bytes: process.memoryUsage.rss(),
        engines: enginesOf(config, checks, versions),
        stages: stages?.() ?? [],
      });
      isDown = false;
    } catch (error) {
      if (!isDown)
        logger.warn(
          { error: messageOf(error) },
          'the report of this process could not be stored: the system page shows its last one',
        );
      isDown = true;
    }
  }

  const reportOnce = () => {
    reporting ??= report().finally(() => {
      reporting = undefined;
    });
  };
  reportOnce();
  const timer = setInterval(reportOnce, PROCESS_REPORT_EVERY_MS).unref();
  return {
    async close() {
      clearInterval(timer);
      // The report expires by itself where the board does not answer; the work of this process must not wait for that.
      const withdrawn = Promise.resolve(reporting).then(() => board.withdraw(fixed.process));
      await Promise.race([withdrawn.catch(() => {}), sleep(WITHDRAW_WITHIN_MS, undefined, { ref: false })]);
      await board.close();
    },
  };
}

/** The engines of a process: those of its readiness, and SQLite where it keeps anything itself. */
export function enginesOf(
  {
    kafkaBrokers,
    redisUrl,
    elasticsearchUrl,
  }: Pick<Config, 'kafkaBrokers' | 'redisUrl' | 'elasticsearchUrl'>,
  checks: Readiness['checks'],
  versions: EngineVersions,
): readonly EngineReport[] {
  const reports = ENGINES.flatMap((engine): EngineReport[] => {
    const state = checks[engine];
    return state === undefined ? [] : [{ engine, state, version: versions[engine] ?? null }];
  });
  const isEmbedded = kafkaBrokers.length === 0 || redisUrl === undefined || elasticsearchUrl === undefined;
  return isEmbedded
    ? [...reports, { engine: 'sqlite', state: 'answers', version: versions.sqlite ?? null }]
    : reports;
}
