import { hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type CatalogView, type Destination, isSealed, NO_METRICS, type TopicSpec } from '@tributary/core';
import { stageReads } from '@tributary/processors';
import { exportedDedupeClaims } from '../../adapters/deduplicator/sqlite/index.ts';
import { StoredLog, type StoredPartition } from '../../adapters/event-log/sqlite/index.ts';
import { layoutFaults } from '../../adapters/event-log/sqlite/segment-file.ts';
import { openStoredFunnel } from '../../adapters/funnel-store/sqlite/index.ts';
import { openStoredHistory } from '../../adapters/history/sqlite/index.ts';
import { openProfileExport } from '../../adapters/profile-store/sqlite/index.ts';
import { openStoredVolume } from '../../adapters/volume-counters/sqlite/index.ts';
import type { Config } from '../../runtime/config/settings.ts';
import type { StartDeadline } from '../../runtime/process/await-engines.ts';
import { embeddedFolders } from '../../runtime/process/data-folder.ts';
import { CleanupStack, OperatorError } from '../../runtime/process/lifecycle.ts';
import {
  configuredTopics,
  openCatalogOfCommand,
  openEventLog,
  readTopics,
} from '../../runtime/wiring/ports/event-log.ts';
import { openStoreMarks } from '../../runtime/wiring/ports/stores.ts';
import { openSecrets } from '../../runtime/wiring/secrets.ts';
import type { MoveFacts } from './examination.ts';
import { neededPartitions } from './log-copy.ts';

/** The stores of a data folder, whose lock this process has. Nothing in them is changed. */
export type MoveSource = Awaited<ReturnType<typeof openMoveSource>>;

/** The facts of the catalog that decide about a move. */
interface CatalogFacts {
  readonly installation: string | undefined;
  readonly grownTopics: readonly string[];
  readonly destinations: readonly Destination[];
}

export async function openMoveSource(config: Config, deadline: StartDeadline) {
  const folders = embeddedFolders(config);
  if (!existsSync(join(folders.log, 'catalog')))
    throw new OperatorError(
      `${config.dataFolder} holds no installation: set TRIBUTARY_DATA_DIR to the folder that is to be moved`,
    );
  const topics = configuredTopics(config);
  const cleanup = new CleanupStack();
  try {
    const log = cleanup.use(new StoredLog(folders.log));
    const partitions = log.partitions();
    const faults = layoutFaults(
      new Map(partitions.map(({ topic, partition, end }) => [`${topic}/${partition}`, { next: end }])),
      log.positions(),
      topics,
    );
    const catalog = faults.length > 0 ? undefined : await readCatalog(config, deadline);
    const foreignStores = await storesOfOthers(config, catalog?.installation, deadline);
    const volume = openStoredVolume(folders.volume);
    const funnel = openStoredFunnel(folders.funnel);
    const history = openStoredHistory(folders.history);
    const profiles = openProfileExport(folders.profiles);
    for (const opened of [volume, funnel, history, profiles]) if (opened !== undefined) cleanup.use(opened);
    return {
      topics,
      log,
      /** What is copied of each partition of a declared topic. */
      partitions: neededPartitions(
        log,
        partitions.filter(({ topic }) => topics.has(topic)),
        stageReads(readTopics(config)),
      ),
      undeclaredTopics: [
        ...new Set(partitions.filter(({ topic }) => !topics.has(topic)).map(({ topic }) => topic)),
      ],
      positions: log.positions().filter(({ topic }) => topics.has(topic)),
      /** Another one once any process has run on the folder. */
      fingerprint: hash('sha256', JSON.stringify([partitions, log.positions()]), 'base64url'),
      layoutFaults: faults,
      catalog,
      foreignStores,
      dedupeClaims: (now: number) => exportedDedupeClaims(folders.dedupe, config.dedupeWindowMs, now),
      reevaluations: (now: number) => exportedDedupeClaims(folders.reevaluated, config.retentionMs, now),
      volume,
      funnel,
      history,
      profiles,
      close: () => cleanup.close(),
    };
  } catch (error) {
    await cleanup.close();
    throw error;
  }
}

/** The stores of the folder that are marked as another installation's. */
async function storesOfOthers(
  config: Config,
  installation: string | undefined,
  { logger }: StartDeadline,
): Promise<readonly string[]> {
  const embedded = { ...config, redisUrl: undefined, elasticsearchUrl: undefined };
  const { profiles, others } = await openStoreMarks(embedded, logger, (mark) => mark);
  const foreign: string[] = [];
  for (const mark of [profiles, ...others]) {
    const found = await mark.read();
    if (found !== undefined && found !== installation) foreign.push(mark.store);
  }
  return foreign;
}

/** Reads the catalog of the folder, without a snapshot. */
async function readCatalog(config: Config, deadline: StartDeadline): Promise<CatalogFacts> {
  const embedded = { ...config, kafkaBrokers: [] };
  const tools = { logger: deadline.logger, metrics: NO_METRICS, dropExpired: false };
  const log = await openEventLog(embedded, tools);
  try {
    const catalog = await openCatalogOfCommand(log, deadline);
    try {
      const { state } = catalog;
      return {
        installation: state.installation,
        grownTopics: [...state.layouts.keys()],
        destinations: destinationsOf(state),
      };
    } finally {
      await catalog.close();
    }
  } finally {
    await log.close();
  }
}

function destinationsOf(state: CatalogView): readonly Destination[] {
  return [...state.workspaceIds()].flatMap((id) => state.entities('destination', id));
}

/** The facts of the data folder alone. */
export function sourceFacts(
  source: MoveSource,
  config: Config,
  now: number,
): Omit<MoveFacts, 'engines' | 'folder' | 'prefix'> {
  const { catalog, layoutFaults: faults, undeclaredTopics, profiles } = source;
  const destinations = catalog?.destinations ?? [];
  const counts = profiles?.counts();
  const sealed = destinations.filter(({ settings }) => Object.values(settings).some(isSealed));
  return {
    installation: catalog?.installation,
    layoutFaults: faults,
    undeclaredTopics,
    grownTopics: catalog?.grownTopics ?? [],
    foreignStores: catalog === undefined ? [] : source.foreignStores,
    unread: faults.length > 0 ? [] : unreadRecords(source, now),
    forgottenDeletions: {
      count: counts?.forgotten ?? 0,
      until: (counts?.lastForgotten ?? 0) + config.retentionMs,
    },
    secrets: {
      sealed: sealed.length,
      unreadable: config.secretKeys === '' ? [] : unreadable(sealed, config),
      hasKeyFile: existsSync(join(config.dataFolder, 'secret-keys.json')),
      hasKeys: config.secretKeys !== '',
      devIssuer: config.devIssuer,
    },
    fileDestinations: destinations.filter(({ type }) => type === 'ndjson').map(({ name }) => name),
    losesDevIssuer: existsSync(join(config.dataFolder, 'dev-issuer.json')) && !config.devIssuer,
  };
}

function unreadable(destinations: readonly Destination[], config: Config): readonly string[] {
  const secrets = openSecrets(config);
  return destinations
    .filter((destination) => {
      try {
        secrets.unseal(destination);
        return false;
      } catch {
        return true; // whatever the fault is, no process of the cluster could open it either
      }
    })
    .map(({ name }) => name);
}

/** Stages that have not read records which their topic's retention removes. */
function unreadRecords({ positions, log, topics }: MoveSource, now: number): MoveFacts['unread'] {
  return positions.filter(({ topic, partition, offset }) => {
    const retentionMs = topics.get(topic)?.retentionMs ?? 'forever';
    const [next] = log.records(topic, partition, offset, 1);
    return retentionMs !== 'forever' && next !== undefined && next.timestamp + retentionMs < now;
  });
}

/** Partitions by topic, the catalog last: a process that meets a cluster without one refuses it. */
export function inMoveOrder(
  source: MoveSource,
): readonly { readonly spec: TopicSpec; readonly partitions: readonly StoredPartition[] }[] {
  const byTopic = Map.groupBy(source.partitions, ({ topic }) => topic);
  const specs = [...source.topics.values()].sort(
    (one, other) => Number(one.retentionMs === 'forever') - Number(other.retentionMs === 'forever'),
  );
  return specs.flatMap((spec) => {
    const partitions = byTopic.get(spec.name);
    return partitions === undefined ? [] : [{ spec, partitions }];
  });
}
