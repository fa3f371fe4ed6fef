import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import {
  type EngineReport,
  type EventLog,
  type Logger,
  type Metrics,
  messageOf,
  NO_LOGGER,
  NO_METRICS,
  newId,
  PROCESS_REPORT_EVERY_MS,
  type ProcessBoard,
  type ProcessStage,
  repeat,
  type StageReads,
  type SystemSnapshot,
  type SystemView,
} from '@tributary/core';
import type { Config } from '../config/settings.ts';
import { type EngineConfig, keepsDataHere } from '../process/data-folder.ts';
import { elasticsearchAccess, redisAccess } from '../wiring/ports/stores.ts';
import type { Readiness } from './operations.ts';
import { StageMetrics, StageProgressReader } from './stage-progress.ts';

/** A snapshot is answered again for this time, ms: the work does not grow with the number of operators who look. */
const VALID_FOR_MS = 2_000;

/** The view of an installation by its log and by what the processes report; read when it is asked for. */
export function createSystemView(
  log: Pick<EventLog, 'progress' | 'read'>,
  stages: readonly StageReads[],
  board: Pick<ProcessBoard, 'read'>,
): SystemView {
  const reader = new StageProgressReader(log, stages);
  // For the rates of the last minute, without reporting them.
  const loads = new StageMetrics(NO_METRICS);
  let last: SystemSnapshot | undefined;
  let reading: Promise<SystemSnapshot> | undefined;

  async function read(): Promise<SystemSnapshot> {
    const [processes, samples] = await Promise.all([board.read(), reader.sample()]);
    const statuses = [...samples].map(([stage, sample]) => ({
      stage,
      sample,
      load: loads.report(stage, sample),
    }));
    last = { at: Date.now(), stages: statuses, processes };
    return last;
  }

  return {
    read() {
      if (last !== undefined && Date.now() - last.at < VALID_FOR_MS) return Promise.resolve(last);
      reading ??= read().finally(() => {
        reading = undefined;
      });
      return reading;
    },
  };
}

/** The engines that `/readyz` reports, by their names there. */
const ENGINES = ['kafka', 'redis', 'elasticsearch'] as const;
/** How often the versions of the engines are read, ms: they may be upgraded below a running process. */
const VERSIONS_EVERY_MS = 10 * 60_000;
/** How long an ending process waits for the board, ms. */
const WITHDRAW_WITHIN_MS = 1_000;

interface ReportedProcess {
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

  const reports = repeat(report, PROCESS_REPORT_EVERY_MS);
  return {
    async close() {
      // The report expires by itself where the board does not answer; the work of this process must not wait for that.
      const withdrawn = reports.close().then(() => board.withdraw(fixed.process));
      await Promise.race([withdrawn.catch(() => {}), sleep(WITHDRAW_WITHIN_MS, undefined, { ref: false })]);
      await board.close();
    },
  };
}

/** The engines of a process: those of its readiness, and SQLite where it keeps anything itself. */
export function enginesOf(
  config: EngineConfig,
  checks: Readiness['checks'],
  versions: EngineVersions,
): readonly EngineReport[] {
  const reports = ENGINES.flatMap((engine): EngineReport[] => {
    const state = checks[engine];
    return state === undefined ? [] : [{ engine, state, version: versions[engine] ?? null }];
  });
  return keepsDataHere(config)
    ? [...reports, { engine: 'sqlite', state: 'answers', version: versions.sqlite ?? null }]
    : reports;
}

/** The versions of the engines of an installation, by their names. */
type EngineVersions = Readonly<Record<string, string>>;

/**
 * Asks the engines for their versions, each on a connection of its own. One that does not answer, or may not be asked, is
 * left out: it is no fault, and `/readyz` says what does not answer. Kafka's protocol has no version of the broker.
 */
async function readEngineVersions(config: Config, logger: Logger): Promise<EngineVersions> {
  const asked: Record<string, () => Promise<string | undefined>> = {
    redis: () => redisVersion(config),
    elasticsearch: () => elasticsearchVersion(config),
  };
  const versions: Record<string, string> = { sqlite: process.versions.sqlite ?? '' };
  await Promise.all(
    Object.entries(asked).map(async ([engine, ask]) => {
      try {
        const version = await ask();
        if (version !== undefined) versions[engine] = version;
      } catch (error) {
        logger.debug({ engine, error: messageOf(error) }, 'the version of an engine is not known');
      }
    }),
  );
  return versions;
}

async function redisVersion(config: Config): Promise<string | undefined> {
  const access = redisAccess(config);
  if (access === undefined) return undefined;
  const { RedisConnection } = await import('../../adapters/redis/index.ts');
  const connection = await RedisConnection.open({ ...access, logger: NO_LOGGER });
  try {
    const text = await connection.call((client) => client.info('server'));
    return /^redis_version:(\S+)/m.exec(String(text))?.[1];
  } finally {
    await connection.close();
  }
}

async function elasticsearchVersion(config: Config): Promise<string | undefined> {
  const access = elasticsearchAccess(config);
  if (access === undefined) return undefined;
  const { ElasticsearchConnection } = await import('../../adapters/elasticsearch/index.ts');
  const connection = await ElasticsearchConnection.open({ access, logger: NO_LOGGER });
  try {
    const { version } = await connection.call((client) => client.info());
    return version.number;
  } finally {
    await connection.close();
  }
}

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));

/** Digits of a commit that are shown. */
const DIGITS = 12;

type BuildRole = 'dev' | 'serve' | 'gateway' | 'processor';

interface Build {
  readonly version: string;
  readonly commit: string | null;
  readonly node: string;
}

let build: Build | undefined;

/** The release, commit and version of Node that this process runs; git is asked once. */
export function buildOf(): Build {
  build ??= { version: packageVersion(), commit: commitOf(ROOT) ?? null, node: process.versions.node };
  return build;
}

/** Sets the build info metric. */
export function reportBuild(metrics: Metrics, role: BuildRole): void {
  const { version, commit, node } = buildOf();
  metrics.gauge('tributary_build_info', 1, { version, commit: commit ?? 'unknown', node, role });
}

/** The version, with the commit where it is known. */
export function buildVersion(): string {
  const { version, commit } = buildOf();
  return commit === null ? version : `${version} (${commit})`;
}

/** The commit that an installation is made of: git knows it in a clone, the file `commit` names it in an image. */
export function commitOf(folder: string): string | undefined {
  const named = existsSync(join(folder, '.git')) ? commitOfClone(folder) : commitOfImage(folder);
  return /^[0-9a-f]{7,64}$/.test(named) ? named.slice(0, DIGITS) : undefined;
}

function commitOfClone(folder: string): string {
  const { status, stdout } = spawnSync('git', ['-C', folder, 'rev-parse', 'HEAD'], { encoding: 'utf8' });
  return status === 0 ? stdout.trim() : '';
}

function commitOfImage(folder: string): string {
  const file = join(folder, 'commit');
  return existsSync(file) ? readFileSync(file, 'utf8').trim() : '';
}

function packageVersion(): string {
  const manifest = readFileSync(join(ROOT, 'infra', 'package.json'), 'utf8');
  return (JSON.parse(manifest) as { readonly version: string }).version;
}
