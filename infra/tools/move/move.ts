import { existsSync } from 'node:fs';
import type { Logger } from '@tributary/core';
import { type Environment, readConfig } from '../../runtime/config/config.ts';
import type { Config } from '../../runtime/config/settings.ts';
import { startDeadline, untilAvailable } from '../../runtime/process/await-engines.ts';
import {
  isUnfinishedMark,
  lockFolder,
  markAsMoved,
  movedMark,
  refuseFolderOfOther,
  unfinishedMark,
} from '../../runtime/process/data-folder.ts';
import { OperatorError } from '../../runtime/process/lifecycle.ts';
import { type CommandTools, listed, print, runCommand } from '../command.ts';
import {
  type Attempt,
  copyPartition,
  engineFacts,
  inMoveOrder,
  type MoveFacts,
  type MoveSource,
  type MoveTarget,
  openMoveSource,
  openMoveTarget,
  sourceFacts,
  storeCopies,
  untilUnchanged,
} from './copies.ts';

export interface MoveCommandOptions {
  /** Prints what would be moved and what stands against it, and moves nothing. */
  readonly check?: true;
  /** Leaves out deletions of profiles that cannot be moved. */
  readonly forgetDeletions?: true;
}

const TARGET = 'the engines that the data folder is moved to are Kafka, Redis and Elasticsearch';

/**
 * `tributary move [--check] [--forget-deletions]`: moves the installation in the data folder, which no process may use, to
 * Kafka, Redis and Elasticsearch with all offsets as they are, to which claims, positions and counters refer. Killed at any moment, it continues when it is
 * called again.
 */
export async function move(options: MoveCommandOptions, environment: Environment): Promise<number> {
  const config = readConfig(
    { LOG_LEVEL: 'warn', ...environment },
    { kafkaBrokers: TARGET, redisUrl: TARGET, elasticsearchUrl: TARGET },
  );
  return runCommand('move', config, async (tools) => {
    const { dataFolder } = config;
    if (!existsSync(dataFolder)) throw new OperatorError(`${dataFolder} does not exist`);
    refuseFolderOfOther(dataFolder);
    const lock = lockFolder(dataFolder);
    tools.cleanup.use({ close: () => lock.release() });
    return examineAndMove(tools, options);
  });
}

/** Returns the exit code. */
async function examineAndMove(
  { config, logger, cleanup, deadline }: CommandTools,
  { check, forgetDeletions }: MoveCommandOptions,
): Promise<number> {
  const source = cleanup.use(await openMoveSource(config, deadline));
  const installation = source.catalog?.installation;
  const target = cleanup.use(await openMoveTarget(config, installation ?? '', deadline));
  const facts = await untilAvailable('looking at the engines', deadline, async () => ({
    ...sourceFacts(source, config, Date.now()),
    folder: config.dataFolder,
    prefix: config.prefix,
    engines: await engineFacts(target, config, { installation, fingerprint: source.fingerprint }),
  }));
  const state = engineStateOf(facts);
  if (state === 'finished') return reportFinished(config, facts);
  const obstacles = obstaclesTo(
    forgetDeletions ? { ...facts, forgottenDeletions: { count: 0, until: 0 } } : facts,
  );
  describe(source, facts);
  for (const note of notesAbout(facts)) print(`note     ${note}`);
  for (const obstacle of obstacles) print(`obstacle ${obstacle}`);
  if (check) {
    if (state === 'unfinished') print('an unfinished move would continue');
    if (obstacles.length === 0) print('nothing stands against the move');
    return obstacles.length === 0 ? 0 : 1;
  }
  if (obstacles.length > 0 || installation === undefined)
    throw new OperatorError('nothing was moved: remove the obstacles, and run this again');
  await copyAll({ config, source, target, installation, isUnfinished: state === 'unfinished', logger });
  return 0;
}

function reportFinished(config: Config, { installation }: MoveFacts): number {
  const mark = movedMark(config.dataFolder);
  if (mark?.installation === installation) {
    print(`the installation ${installation} was moved to ${mark?.to} at ${mark?.at}`);
    return 0;
  }
  throw new OperatorError(
    `the engines below the prefix "${config.prefix}" are those of the installation ${installation} already, and this folder is another copy of it: nothing was moved`,
  );
}

/** Prints what is in the folder. */
function describe(source: MoveSource, facts: MoveFacts): void {
  const { partitions, positions, counts, history, profiles } = source;
  const records = partitions.reduce((sum, { first, end }) => sum + end - first, 0);
  const left = partitions.reduce((sum, { first }) => sum + first, 0);
  const stored = profiles?.counts();
  print(`folder   ${facts.folder}, installation ${facts.installation ?? 'without an id'}`);
  print(
    `log      ${number(records)} records: the catalog, what stages have not done, and what that refers to; ${number(left)} before them are left behind`,
  );
  print(`stages   ${positions.length} positions`);
  print(`counts   of ${counts?.applied().length ?? 0} partitions`);
  print(`profiles ${number(stored?.live ?? 0)}, and ${number(stored?.deleted ?? 0)} remembered deletions`);
  print(`history  ${number(history?.count() ?? 0)} entries`);
}

interface Move {
  readonly config: Config;
  readonly source: MoveSource;
  readonly target: MoveTarget;
  readonly installation: string;
  readonly isUnfinished: boolean;
  readonly logger: Logger;
}

/** Each step may be repeated; the marks of the stores are what a repetition, and every other process, goes by. */
async function copyAll({ config, source, target, installation, isUnfinished, logger }: Move): Promise<void> {
  const attempt: Attempt = (what, call) =>
    untilAvailable(what, startDeadline(config.startTimeoutMs, logger), call);
  const { marks, records, log } = target;
  const unfinished = unfinishedMark(installation, source.fingerprint);
  const [redisMark] = marks.others;
  if (redisMark === undefined) throw new Error('there is no mark of Redis');

  // From here on no process uses the engines.
  for (const mark of [redisMark, marks.profiles]) {
    const found = await attempt(`marking ${mark.store}`, () => mark.claim(unfinished));
    if (found !== unfinished && found !== installation)
      throw new OperatorError(`${mark.store} was taken by ${found} meanwhile: nothing was moved`);
  }
  if (isUnfinished) print('an unfinished move continues');
  await attempt('preparing the topics', () => records.prepareTopics(config.createTopics));
  if (config.createTopics) await attempt('creating the topics', () => log.createTopics());

  const tools = { source, target, prefix: config.prefix, attempt, logger };
  if (isUnfinished) await untilUnchanged(tools, source.partitions);
  for (const [contents, copy] of Object.entries(storeCopies(tools))) {
    const since = performance.now();
    await copy();
    print(`copied   ${contents} (${seconds(since)})`);
  }
  for (const { spec, partitions } of inMoveOrder(source)) {
    const since = performance.now();
    const copied = await Promise.all(partitions.map((one) => copyPartition(tools, one)));
    print(
      `copied   ${spec.name}: ${number(copied.reduce((sum, one) => sum + one, 0))} records (${seconds(since)})`,
    );
  }
  await attempt('storing the positions', () => log.importPositions(source.positions));

  const altered = await attempt('altering the topics', () => log.alterTopics());
  logger.info({ altered: altered.length }, 'topics keep their records as long as configured from now on');
  // First, so that the installation never runs in two places.
  markAsMoved(config.dataFolder, {
    installation,
    at: new Date().toISOString(),
    to: `Kafka at ${config.kafkaBrokers.join(',')}, prefix "${config.prefix}"`,
  });
  for (const mark of [marks.profiles, redisMark])
    await attempt(`marking ${mark.store}`, () => mark.replace(installation));
  print(
    `the installation ${installation} is moved: start gateways and processors with these settings; ${config.dataFolder} is marked, and does not start any more`,
  );
}

function number(value: number): string {
  return value.toLocaleString('en');
}

function seconds(since: number): string {
  return `${((performance.now() - since) / 1_000).toFixed(1)} s`;
}

/**
 * - `empty`: nothing was moved yet. `unfinished`: a move of this installation was begun. `finished`: the engines are this
 *   installation's. `taken`: they hold something else.
 */
export type EngineState = 'empty' | 'unfinished' | 'finished' | 'taken';

export function engineStateOf({ installation, engines }: MoveFacts): EngineState {
  const { redisMark, profilesMark } = engines;
  if (installation !== undefined && redisMark === installation) return 'finished';
  if (installation !== undefined && redisMark !== undefined && isUnfinishedMark(redisMark, installation))
    return 'unfinished';
  const isEmpty =
    redisMark === undefined &&
    profilesMark === undefined &&
    engines.topicsWithRecords.length === 0 &&
    !engines.holdsCounts &&
    !engines.holdsProfiles &&
    !engines.holdsHistory;
  return isEmpty ? 'empty' : 'taken';
}

/** The obstacles to the move, each as one line with its remedy. */
export function obstaclesTo(facts: MoveFacts): readonly string[] {
  return [...folderObstacles(facts), ...secretObstacles(facts), ...engineObstacles(facts)];
}

function* folderObstacles(facts: MoveFacts): Generator<string> {
  const { installation, layoutFaults, grownTopics, foreignStores, unread, forgottenDeletions } = facts;
  if (installation === undefined && layoutFaults.length === 0)
    yield 'the installation has no id, as an older release began it: start this release on the folder, and run `tributary upgrade`';
  for (const fault of layoutFaults)
    yield `${fault} in the data folder: TRIBUTARY_PARTITIONS, TRIBUTARY_TOPICS and TRIBUTARY_RETRY_SCHEDULE must be those that it is run with`;
  if (grownTopics.length > 0)
    yield `the catalog names more partitions of ${listed(grownTopics)} than the folder has, as it was imported from a cluster: only a cluster can use it`;
  if (foreignStores.length > 0)
    yield `${listed(foreignStores)} are of another installation than the catalog: \`tributary adopt-stores\` on the folder gives them to this one`;
  for (const { stage, topic } of unread)
    yield `stage ${stage} has not read records of ${topic} that are older than TRIBUTARY_RETENTION, which Kafka removes: start the folder again until they are read, or set a longer retention`;
  if (forgottenDeletions.count > 0)
    yield `${forgottenDeletions.count} deletions of profiles were made by an older release and cannot be moved, so events received before them could bring the persons back: move after ${new Date(forgottenDeletions.until).toISOString()}, when they are forgotten, or pass --forget-deletions`;
}

function* secretObstacles({ folder, secrets }: MoveFacts): Generator<string> {
  const { sealed, unreadable, hasKeys, hasKeyFile, devIssuer } = secrets;
  if (!hasKeys && sealed > 0 && !devIssuer)
    yield hasKeyFile
      ? `${sealed} secrets of destinations and sources are sealed under keys of ${folder}/secret-keys.json, and other machines do not have them: set TRIBUTARY_SECRET_KEYS to the text in that file, here and for every process`
      : `${sealed} secrets of destinations and sources are sealed: set TRIBUTARY_SECRET_KEYS to their keys, here and for every process`;
  if (hasKeys && unreadable.length > 0)
    yield `no key of TRIBUTARY_SECRET_KEYS opens the secrets of ${listed(unreadable)}${hasKeyFile ? `: add the keys of ${folder}/secret-keys.json` : ''}`;
}

function* engineObstacles(facts: MoveFacts): Generator<string> {
  const { engines, prefix } = facts;
  const state = engineStateOf(facts);
  if (state === 'taken') {
    const { redisMark, profilesMark, topicsWithRecords } = engines;
    const found = [
      ...[redisMark, profilesMark].flatMap((mark) => (mark === undefined ? [] : [`the mark of ${mark}`])),
      ...(topicsWithRecords.length > 0 ? [`records in ${listed(topicsWithRecords)}`] : []),
      ...(engines.holdsCounts ? ['counts'] : []),
      ...(engines.holdsProfiles ? ['profiles'] : []),
      ...(engines.holdsHistory ? ['a history'] : []),
    ];
    yield `the engines are not empty below the prefix "${prefix}": they hold ${[...new Set(found)].join(', ')}. Move to another TRIBUTARY_PREFIX, or to empty engines`;
  }
  if (state === 'unfinished' && engines.redisMark !== engines.unfinishedMark)
    yield `a process has run on ${facts.folder} since the move was begun, so what was copied is not its state any more: delete the topics, consumer groups, keys and indices below the prefix "${prefix}", and run this again`;
  if (engines.runningStages.length > 0)
    yield `processes run on the engines (consumer groups of ${listed(engines.runningStages)} have members): stop them; one that was killed counts for some seconds`;
  yield* engines.otherPartitions;
  if (engines.missingTopics.length > 0)
    yield `TRIBUTARY_CREATE_TOPICS is false and ${listed(engines.missingTopics)} are missing: create them, e.g. by \`tributary topics\``;
}

/** Notes for the operator that are no obstacles. */
export function notesAbout(facts: MoveFacts): readonly string[] {
  const { folder, secrets, fileDestinations, undeclaredTopics, losesDevIssuer } = facts;
  return [
    ...(secrets.hasKeys || secrets.sealed === 0 || !secrets.devIssuer
      ? []
      : [
          `the secrets of destinations and sources are sealed under keys of ${folder}: processes with another data folder cannot open them`,
        ]),
    ...(fileDestinations.length === 0
      ? []
      : [
          `${listed(fileDestinations)} append to files below ${folder}/ndjson, which stay there: from now on each processor appends to files of its own data folder`,
        ]),
    ...(undeclaredTopics.length === 0
      ? []
      : [`${listed(undeclaredTopics)} are not declared any more, all read, and left behind`]),
    ...(losesDevIssuer
      ? [
          'people signed in by the development issuer, and an account belongs to its issuer: set TRIBUTARY_ISSUERS for the cluster, and give people access there by `tributary admin` or by invitations',
        ]
      : []),
  ];
}
