import { hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  chunks,
  HEADER,
  type HistoryEntry,
  isSealed,
  type Logger,
  messageOf,
  NO_METRICS,
  type Position,
  parseExact,
  parsePosition,
  readDeadLetter,
  referencedEventText,
  type StageReads,
  TOPIC,
  type TopicSpec,
  TributaryError,
} from '@tributary/core';
import { STAGE_NAMES, stageReads } from '@tributary/processors/stages';
import { holdsCounts, importDocuments, importOffsets } from '../../adapters/counters/redis/index.ts';
import { openSqliteCounters, openStoredCounts } from '../../adapters/counters/sqlite/index.ts';
import type { ExportedDedupeClaim } from '../../adapters/deduplicator/digest.ts';
import { importDedupeClaims } from '../../adapters/deduplicator/redis/index.ts';
import { exportedDedupeClaims } from '../../adapters/deduplicator/sqlite/index.ts';
import { LogImport, OffsetTaken } from '../../adapters/event-log/kafka/index.ts';
import { StoredLog, type StoredPartition } from '../../adapters/event-log/sqlite/index.ts';
import { REMOVED_STAGES } from '../../adapters/event-log/sqlite/retention.ts';
import { layoutFaults } from '../../adapters/event-log/sqlite/segment-file.ts';
import { openHistoryImport } from '../../adapters/history/elasticsearch/index.ts';
import { dayOf, openStoredHistory } from '../../adapters/history/sqlite/index.ts';
import { ProfileImport } from '../../adapters/profile-store/elasticsearch/index.ts';
import { type ExportedProfile, openProfileExport } from '../../adapters/profile-store/sqlite/index.ts';
import { RedisConnection } from '../../adapters/redis/index.ts';
import type { Config } from '../../runtime/config/settings.ts';
import { type StartDeadline, untilAvailable } from '../../runtime/process/await-engines.ts';
import { embeddedFolders, unfinishedMark } from '../../runtime/process/data-folder.ts';
import { CleanupStack, OperatorError } from '../../runtime/process/lifecycle.ts';
import {
  configuredTopics,
  kafkaConnection,
  openCatalogOfCommand,
  openEventLog,
  openOnKafka,
  readTopics,
} from '../../runtime/wiring/ports/event-log.ts';
import { elasticsearchAccess, openStoreMarks, redisAccess } from '../../runtime/wiring/ports/stores.ts';
import { openValueFraming } from '../../runtime/wiring/schemas.ts';
import { openSecrets } from '../../runtime/wiring/secrets.ts';

/** Facts about the data folder and the engines, gathered before anything is moved. */
export interface MoveFacts extends ReturnType<typeof sourceFacts> {
  readonly folder: string;
  readonly prefix: string;
  readonly engines: Awaited<ReturnType<typeof engineFacts>>;
}

/** Records that a stage has not read and that are older than their topic keeps them. */
export interface UnreadRecords {
  readonly stage: string;
  readonly topic: string;
}

/** The stores of a data folder, whose lock this process has. Nothing in them is changed. */
export type MoveSource = Awaited<ReturnType<typeof openMoveSource>>;

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
    // Imports the volume that release 0.2.0 counted, where no process of this release ran on the folder.
    if (existsSync(join(folders.volume, 'volume.db')))
      await openSqliteCounters({
        folder: folders.funnel,
        volumeFolder: folders.volume,
        clock: Date.now,
      }).close();
    const counts = cleanup.use(openStoredCounts(folders.funnel));
    const history = cleanup.use(openStoredHistory(folders.history));
    const profiles = cleanup.use(openProfileExport(folders.profiles));
    return {
      topics,
      log,
      /** The records that are copied of each partition of a declared topic. */
      partitions: neededPartitions(
        log,
        partitions.filter(({ topic }) => topics.has(topic)),
        stageReads(readTopics(config)),
      ),
      undeclaredTopics: [
        ...new Set(partitions.filter(({ topic }) => !topics.has(topic)).map(({ topic }) => topic)),
      ],
      positions: log
        .positions()
        .filter(({ stage, topic }) => !REMOVED_STAGES.has(stage) && topics.has(topic)),
      /** Another one once any process has run on the folder. */
      fingerprint: hash('sha256', JSON.stringify([partitions, log.positions()]), 'base64url'),
      layoutFaults: faults,
      catalog,
      foreignStores,
      dedupeClaims: (now: number) => exportedDedupeClaims(folders.dedupe, config.dedupeWindowMs, now),
      reevaluations: (now: number) => exportedDedupeClaims(folders.reevaluated, config.retentionMs, now),
      counts,
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

/** The facts of the catalog of the folder that decide about a move, read without a snapshot. */
async function readCatalog(config: Config, deadline: StartDeadline) {
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
        destinations: [...state.workspaceIds()].flatMap((id) => state.entities('destination', id)),
        sources: [...state.workspaceIds()].flatMap((id) => state.entities('source', id)),
      };
    } finally {
      await catalog.close();
    }
  } finally {
    await log.close();
  }
}

/** The facts of the data folder alone. */
export function sourceFacts(source: MoveSource, config: Config, now: number) {
  const { catalog, layoutFaults: faults, undeclaredTopics, profiles } = source;
  const destinations = catalog?.destinations ?? [];
  const counts = profiles?.counts();
  const sealed = {
    destinations: destinations.filter(({ settings }) => Object.values(settings).some(isSealed)),
    sources: (catalog?.sources ?? []).filter(({ webhook }) => (webhook?.secrets.length ?? 0) > 0),
  };
  return {
    /** Undefined: an older release began the catalog, and `tributary upgrade` was not run. */
    installation: catalog?.installation,
    layoutFaults: faults,
    /** Topics that are stored and not declared any more; all their records were read. */
    undeclaredTopics,
    /** The catalog names grown topics, which only a cluster has. */
    grownTopics: catalog?.grownTopics ?? [],
    foreignStores: catalog === undefined ? [] : source.foreignStores,
    unread: faults.length > 0 ? [] : unreadRecords(source, now),
    forgottenDeletions: {
      count: counts?.forgotten ?? 0,
      until: (counts?.lastForgotten ?? 0) + config.retentionMs,
    },
    secrets: {
      /** Destinations and sources with sealed secrets, and those with one that no configured key opens. */
      sealed: sealed.destinations.length + sealed.sources.length,
      unreadable: config.secretKeys === '' ? [] : unreadable(sealed, config),
      hasKeyFile: existsSync(join(config.dataFolder, 'secret-keys.json')),
      hasKeys: config.secretKeys !== '',
      /** Keys in the data folder are allowed. */
      devIssuer: config.devIssuer,
    },
    /** Destinations that append to files of the data folder. */
    fileDestinations: destinations.filter(({ type }) => type === 'ndjson').map(({ name }) => name),
    /** The folder has a development issuer, and the cluster takes none. */
    losesDevIssuer: existsSync(join(config.dataFolder, 'dev-issuer.json')) && !config.devIssuer,
  };
}

/** The names of destinations and sources with a secret that no key opens. */
function unreadable(
  { destinations, sources }: Pick<Awaited<ReturnType<typeof readCatalog>>, 'destinations' | 'sources'>,
  config: Config,
): readonly string[] {
  const secrets = openSecrets(config);
  const failing = <Entity extends { readonly name: string }>(
    entities: readonly Entity[],
    open: (entity: Entity) => unknown,
  ) =>
    entities
      .filter((entity) => {
        try {
          open(entity);
          return false;
        } catch {
          return true; // whatever the fault is, no process of the cluster could open it either
        }
      })
      .map(({ name }) => name);
  const openDestination = (destination: (typeof destinations)[number]) => [
    secrets.unseal(destination),
    secrets.openTokens(destination),
  ];
  return [...failing(destinations, openDestination), ...failing(sources, secrets.webhookSecrets)];
}

/** Stages that have not read records which their topic's retention removes. */
function unreadRecords({ positions, log, topics }: MoveSource, now: number): readonly UnreadRecords[] {
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

/** A bulk of a busy Elasticsearch takes longer than a call of a process. */
const ELASTICSEARCH_TIMEOUT_MS = 60_000;
const REDIS_TIMEOUT_MS = 30_000;

/** Repeats a call while an engine does not answer, up to the start timeout. `what`: for messages. */
export type Attempt = <T>(what: string, call: () => Promise<T>) => Promise<T>;

/** The engines that are filled. */
export type MoveTarget = Awaited<ReturnType<typeof openMoveTarget>>;

/** `importId`: the installation. */
export async function openMoveTarget(config: Config, importId: string, deadline: StartDeadline) {
  const { logger } = deadline;
  const [redisAt, elasticsearchAt] = [redisAccess(config), elasticsearchAccess(config)];
  if (redisAt === undefined || elasticsearchAt === undefined)
    throw new OperatorError('REDIS_URL and ELASTICSEARCH_URL are needed');
  const cleanup = new CleanupStack();
  const { prefix, profileShards: shards, replication } = config;
  try {
    const framing = cleanup.use(
      await untilAvailable('reaching the schema registry', deadline, () => openValueFraming(config, logger)),
    );
    const log = cleanup.use(await openOnKafka(config, { logger, metrics: NO_METRICS, framing }));
    const records = cleanup.use(
      new LogImport({
        connection: kafkaConnection(config, 'command'),
        prefix,
        topics: configuredTopics(config),
        framing,
        replicationFactor: replication,
        logger,
      }),
    );
    const redis = cleanup.use(
      await RedisConnection.open({ ...redisAt, logger, timeoutMs: REDIS_TIMEOUT_MS }),
    );
    const elasticsearch = { access: elasticsearchAt, prefix, logger, timeoutMs: ELASTICSEARCH_TIMEOUT_MS };
    const profiles = cleanup.use(await ProfileImport.open({ ...elasticsearch, shards, importId }));
    const retentionMs = config.historyRetentionMs ?? config.retentionMs;
    const history = cleanup.use(await openHistoryImport({ ...elasticsearch, retentionMs }));
    const marks = await openStoreMarks(config, logger, (mark) => cleanup.use(mark));
    return { log, records, redis, profiles, history, marks, close: () => cleanup.close() };
  } catch (error) {
    await cleanup.close();
    throw error;
  }
}

/** Looks at the engines without changing anything. */
export async function engineFacts(
  target: MoveTarget,
  config: Config,
  { installation, fingerprint }: { readonly installation: string | undefined; readonly fingerprint: string },
) {
  const { log, redis, history, marks, records } = target;
  const inKafka = await log.partitionsInKafka();
  const specs = [...log.topics.values()];
  const ends = await Promise.all(
    specs.map(async ({ name, partitions }) => {
      const count = Math.min(partitions, inKafka.get(name) ?? 0);
      const ofTopic = Array.from({ length: count }, (_, partition) => log.end(name, partition));
      return { name, hasRecords: (await Promise.all(ofTopic)).some((end) => end > 0) };
    }),
  );
  const missing = specs.map(({ name }) => name).filter((name) => !inKafka.has(name));
  const [redisMark] = await Promise.all(marks.others.map((mark) => mark.read()));
  return {
    redisMark,
    profilesMark: await marks.profiles.read(),
    /** The mark while the move of this folder, in its state, is unfinished. */
    unfinishedMark: unfinishedMark(installation ?? '', fingerprint),
    topicsWithRecords: ends.filter(({ hasRecords }) => hasRecords).map(({ name }) => name),
    holdsCounts: await holdsCounts(redis, config.prefix),
    holdsProfiles: (await marks.profiles.holdsProfiles?.()) ?? false,
    holdsHistory: await history.exists(),
    runningStages: await records.runningStages(STAGE_NAMES),
    otherPartitions: specs.flatMap(({ name, partitions }) => {
      const there = inKafka.get(name) ?? partitions;
      return there === partitions
        ? []
        : [
            `the topic ${config.prefix}${name} has ${there} partitions and the data folder ${partitions}: delete it, and let this command create it`,
          ];
    }),
    /** Those that are missing although this command may not create them. */
    missingTopics: config.createTopics ? [] : missing,
  };
}

/** Bytes of values of one append. */
const APPEND_BYTES = 1024 * 1024;
/**
 * A request of a process that was killed, or whose answer was lost, may be carried out a moment later: the end counts once
 * it has not changed for so long, ms.
 */
const UNCHANGED_MS = 2_000;

/** Topics that are copied whole: the catalog, and what no stage reads before an operator or a start asks for it. */
const COPIED_WHOLE: readonly string[] = [TOPIC.catalog, TOPIC.poison, TOPIC.crashes];

/** The topics that a replay reads: copied whole while one runs, or may be about to begin. */
const REPLAYED: readonly string[] = [TOPIC.accepted, TOPIC.rejected];

type ReadableLog = Pick<StoredLog, 'records' | 'positions'>;

/** The record at a position; undefined where retention has dropped it. */
function storedRecord(log: Pick<StoredLog, 'records'>, { topic, partition, offset }: Position) {
  const [record] = log.records(topic, partition, offset, 1);
  return record?.offset === offset ? record : undefined;
}

/**
 * The part of each partition that is copied: from the first record that a stage has not done, or that such a record refers
 * to. All before it is left behind, as if retention had dropped it.
 */
export function neededPartitions(
  log: ReadableLog,
  partitions: readonly StoredPartition[],
  reads: readonly StageReads[],
): readonly StoredPartition[] {
  const stored = new Map(partitions.map((one) => [nameOf(one), one]));
  const positions = new Map(log.positions().map((one) => [`${one.stage} ${nameOf(one)}`, one.offset]));
  /** The first record that the stage has not done. A partition without a position was never processed. */
  const doneBy = (stage: string, one: StoredPartition) =>
    positions.get(`${stage} ${nameOf(one)}`) ?? one.first;
  const replays = reads.filter(({ stage }) => stage === 'replay');
  const isReplaying = partitions.some((one) =>
    replays.some(({ stage, topics }) => topics.includes(one.topic) && doneBy(stage, one) < one.end),
  );
  const whole = isReplaying ? [...COPIED_WHOLE, ...REPLAYED] : COPIED_WHOLE;
  const from = new Map(
    partitions.map((one) => {
      const { topic, first, end } = one;
      if (whole.includes(topic)) return [nameOf(one), first];
      const done = reads
        .filter(({ topics }) => topics.includes(topic))
        .map(({ stage }) => doneBy(stage, one));
      return [nameOf(one), Math.max(first, Math.min(end, ...done))];
    }),
  );
  const followed = new Set<string>();
  const follow = (topic: string, value: string) => {
    for (const text of referencesIn(topic, value)) {
      const position = followed.has(text) ? undefined : parsePosition(text);
      followed.add(text);
      if (position === undefined) continue;
      const start = from.get(nameOf(position));
      const { first, end } = stored.get(nameOf(position)) ?? { first: 0, end: 0 };
      if (start === undefined || position.offset < first || position.offset >= end) continue;
      from.set(nameOf(position), Math.min(start, position.offset));
      const record = storedRecord(log, position);
      if (record !== undefined) follow(position.topic, record.value);
    }
  };
  for (const { topic, partition, end } of partitions.filter((one) => mayRefer(one.topic)))
    for (let at = from.get(nameOf({ topic, partition })) ?? end; at < end; ) {
      const records = log.records(topic, partition, at, APPEND_BYTES);
      for (const { value } of records) follow(topic, value);
      at = (records.at(-1)?.offset ?? end) + 1;
    }
  return partitions.map((one) => ({ ...one, first: from.get(nameOf(one)) ?? one.first }));
}

function nameOf({ topic, partition }: Pick<StoredPartition, 'topic' | 'partition'>): string {
  return `${topic}/${partition}`;
}

function mayRefer(topic: string): boolean {
  return topic.startsWith(TOPIC.deliveries) || topic === TOPIC.eventsSlow || topic === TOPIC.poison;
}

/**
 * The positions that a record refers to: of its event, of the record with its delivery, of a dead-lettered entry that is not
 * in it. Texts of an event may look like one; then more is copied than is needed.
 */
function referencesIn(topic: string, value: string): readonly string[] {
  if (topic === TOPIC.poison) {
    const letter = readDeadLetter({ value });
    if (letter === undefined) return [];
    const { topic: from, partition, offset, index } = letter.position;
    return letter.omitted === true
      ? [`${from}/${partition}/${offset}/${index}`]
      : referencesIn(from, letter.entry.value);
  }
  return mayRefer(topic)
    ? [...value.matchAll(/"(?:of|position)":"([^"]+)"/g)].flatMap((match) => match[1] ?? [])
    : [];
}

interface LogCopyTools {
  readonly source: { readonly log: Pick<StoredLog, 'records'> };
  readonly target: Pick<MoveTarget, 'log' | 'records'>;
  readonly attempt: Attempt;
  readonly logger: Logger;
}

/** The next step of copying a partition. */
type CopyStep =
  | { readonly do: 'fill'; readonly from: number; readonly to: number }
  | { readonly do: 'append'; readonly from: number }
  | { readonly do: 'drop'; readonly below: number }
  | { readonly do: 'nothing' };

/** The next step by what is to be copied of the partition (`source`) and what is there (`target`). */
export function nextStep(
  source: { readonly first: number; readonly end: number },
  target: { readonly first: number; readonly end: number },
): CopyStep {
  if (target.end < source.first) return { do: 'fill', from: target.end, to: source.first };
  if (target.end < source.end) return { do: 'append', from: target.end };
  if (target.first < source.first) return { do: 'drop', below: source.first };
  return { do: 'nothing' };
}

/**
 * Copies a partition, from where an earlier copy ended. Offsets are kept: those below `first` are filled with records
 * without content, which are dropped in the end. Returns the number of records that this call copied.
 */
export async function copyPartition(tools: LogCopyTools, partition: StoredPartition): Promise<number> {
  const { topic, partition: number } = partition;
  const { log } = tools.target;
  const what = `copying ${nameOf(partition)}`;
  let end = await endOf(tools, partition);
  if (end > partition.end)
    throw new OffsetTaken(
      `${nameOf(partition)} has ${end} records in Kafka and ${partition.end} in the data folder: something else was written there. Stop what writes to it, delete the topic with its prefix (kafka-topics --delete), and run this again`,
    );
  const begun = Math.max(end, partition.first);
  for (;;) {
    const first = await tools.attempt(what, () => log.first(topic, number));
    const step = nextStep(partition, { first, end });
    if (step.do === 'nothing') return end - begun;
    try {
      end = await carryOut(tools, partition, step, end);
    } catch (error) {
      if (!(error instanceof TributaryError && error.retryable)) throw error;
      tools.logger.warn({ error: messageOf(error) }, `${what}: not possible yet; trying again`);
      await untilUnchanged(tools, [partition]);
      end = await endOf(tools, partition);
    }
  }
}

/** Returns the end afterwards. */
async function carryOut(
  { source, target }: LogCopyTools,
  { topic, partition, first, end: sourceEnd }: StoredPartition,
  step: Exclude<CopyStep, { do: 'nothing' }>,
  end: number,
): Promise<number> {
  switch (step.do) {
    case 'fill': {
      const [oldest] = source.log.records(topic, partition, first, 1);
      await target.records.fill(topic, partition, step.from, step.to, oldest?.timestamp ?? Date.now());
      return step.to;
    }
    case 'append': {
      let at = step.from;
      while (at < sourceEnd) {
        const records = source.log.records(topic, partition, at, APPEND_BYTES);
        const gap = records.findIndex(({ offset }, index) => offset !== at + index);
        if (records.length === 0 || gap >= 0)
          throw new Error(`${topic}/${partition} of the data folder has no record ${at + Math.max(0, gap)}`);
        await target.records.append(topic, partition, records);
        at += records.length;
      }
      return at;
    }
    case 'drop':
      await target.log.dropBelow(topic, partition, step.below);
      return end;
  }
}

/** Waits until the ends of partitions in Kafka do not change any more. */
export async function untilUnchanged(
  tools: LogCopyTools,
  partitions: readonly StoredPartition[],
): Promise<void> {
  const read = () => Promise.all(partitions.map((one) => endOf(tools, one)));
  for (let ends = await read(); ; ) {
    await sleep(UNCHANGED_MS);
    const now = await read();
    if (now.every((end, at) => end === ends[at])) return;
    ends = now;
  }
}

function endOf({ attempt, target }: LogCopyTools, one: StoredPartition): Promise<number> {
  return attempt(`looking at ${nameOf(one)}`, () => target.log.end(one.topic, one.partition));
}

/** Items of one call; a profile has a few documents, and one of the counters has up to some KiB. */
const DEDUPE_CLAIMS = 5_000;
const ENTRIES = 2_000;
const PROFILES = 500;
const DOCUMENTS = 500;

interface StoreCopyTools {
  readonly source: Pick<
    MoveSource,
    'dedupeClaims' | 'reevaluations' | 'counts' | 'history' | 'profiles' | 'log'
  >;
  readonly target: Pick<MoveTarget, 'redis' | 'profiles' | 'history'>;
  readonly prefix: string;
  readonly attempt: Attempt;
}

/** Copies of the stores beside the log, by the kind of their contents and in their order. Each may be repeated. */
export function storeCopies({
  source: { counts, history, profiles, log, dedupeClaims, reevaluations },
  target,
  prefix,
  attempt,
}: StoreCopyTools): Readonly<Record<string, () => Promise<void>>> {
  const { redis } = target;

  async function copy<Chunk>(what: string, all: Iterable<Chunk>, write: (chunk: Chunk) => Promise<void>) {
    for (const chunk of all) await attempt(`copying ${what}`, () => write(chunk));
  }

  const copyClaims = (what: string, below: string, claims: Iterable<ExportedDedupeClaim>) =>
    copy(what, chunks(claims, DEDUPE_CLAIMS), (some) => importDedupeClaims(redis, below, some, Date.now()));

  return {
    'dedupe claims': () => copyClaims('dedupe claims', prefix, dedupeClaims(Date.now())),
    'claims of re-evaluations': () =>
      copyClaims('claims of re-evaluations', `${prefix}reevaluated:`, reevaluations(Date.now())),

    async counts() {
      if (counts === undefined) return;
      const documents = chunks(counts.documents(Date.now()), DOCUMENTS);
      await copy('counts', documents, (some) => importDocuments(redis, prefix, some));
      // Last: counts below these offsets are not added any more.
      await attempt('copying counts', () => importOffsets(redis, prefix, counts.applied()));
    },

    async profiles() {
      await attempt('copying profiles', () => target.profiles.begin(Date.now()));
      if (profiles === undefined) return;
      const unpublished = profiles.unpublished();
      const rows = pages(
        (row) => profiles.after(row, PROFILES),
        ({ row }) => row,
      );
      await copy('profiles', rows, (some) => target.profiles.write(known(some), unpublished));
    },

    async 'history entries'() {
      if (history === undefined) return;
      const lastPuts = history.lastPuts();
      const numbered = pages(
        (number) => history.after(number, ENTRIES),
        ({ number }) => number,
      );
      for (const page of numbered)
        await copy(
          'history entries',
          Map.groupBy(page, ({ entry }) => dayOf(entry.at)),
          ([day, some]) =>
            target.history.put(
              some.map(({ entry }) => withItsEvent(entry, log)),
              // A period is dropped a retention after the last put into it.
              lastPuts.get(day) ?? Date.now(),
            ),
        );
    },
  };
}

/** `next`: the items after one with a number, in the order of their numbers; none at the end. */
function* pages<T>(
  next: (after: number) => readonly T[],
  numberOf: (item: T) => number,
): Generator<readonly T[]> {
  for (let page = next(0), last = page.at(-1); last !== undefined; last = page.at(-1)) {
    yield page;
    page = next(numberOf(last));
  }
}

/** Without the deletions that cannot be moved. */
function known(some: readonly ExportedProfile[]) {
  return some.filter((one) => one.kind !== 'forgotten');
}

/**
 * A dead delivery with the event that it refers to: most of the log is not copied, and the delivery can be redriven.
 * Unchanged where retention has dropped the event.
 */
function withItsEvent(entry: HistoryEntry, log: MoveSource['log']): HistoryEntry {
  const { kind, facets, body, detail, workspaceId } = entry;
  const { event_at: reference, ...rest } = body as { readonly event_at?: { readonly position: string } };
  const at = reference === undefined ? undefined : parsePosition(reference.position);
  if (kind !== 'delivery' || facets.status !== 'dead' || detail !== undefined || at === undefined)
    return entry;
  const record = storedRecord(log, at);
  if (record?.headers[HEADER.workspaceId] !== workspaceId) return entry;
  const event = parseExact<NonNullable<HistoryEntry['detail']>>(
    referencedEventText({ ...record, position: at }),
  );
  return { ...entry, body: rest as HistoryEntry['body'], detail: { event } };
}
