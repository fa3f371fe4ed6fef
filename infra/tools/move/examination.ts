import { isUnfinishedMark } from '../../runtime/process/moved-installation.ts';

/** Facts about the data folder and the engines, gathered before anything is moved. */
export interface MoveFacts {
  readonly folder: string;
  readonly prefix: string;
  /** Undefined: an older release began the catalog, and `tributary upgrade` was not run. */
  readonly installation: string | undefined;
  /** See `layoutFaults` of the embedded log. */
  readonly layoutFaults: readonly string[];
  /** Topics that are stored and not declared any more; all their records were read. */
  readonly undeclaredTopics: readonly string[];
  /** The catalog names grown topics, which only a cluster has. */
  readonly grownTopics: readonly string[];
  /** Stores of the folder that are marked as another installation's. */
  readonly foreignStores: readonly string[];
  readonly unread: readonly UnreadRecords[];
  readonly forgottenDeletions: { readonly count: number; readonly until: number };
  readonly secrets: SecretFacts;
  /** Names of destinations that append to files of the data folder. */
  readonly fileDestinations: readonly string[];
  /** The folder has a development issuer, and the cluster takes none. */
  readonly losesDevIssuer: boolean;
  readonly engines: EngineFacts;
}

/** Records that a stage has not read and that are older than their topic keeps them. */
export interface UnreadRecords {
  readonly stage: string;
  readonly topic: string;
}

export interface SecretFacts {
  /** Secrets of destinations that are sealed. */
  readonly sealed: number;
  /** Destinations with a secret that no key of `TRIBUTARY_SECRET_KEYS` opens. */
  readonly unreadable: readonly string[];
  readonly hasKeyFile: boolean;
  /** `TRIBUTARY_SECRET_KEYS` is set. */
  readonly hasKeys: boolean;
  /** Keys in the data folder are allowed. */
  readonly devIssuer: boolean;
}

export interface EngineFacts {
  /** The installation ids in the marks. */
  readonly redisMark: string | undefined;
  readonly profilesMark: string | undefined;
  /** The mark while the move of this folder, in its state, is unfinished. */
  readonly unfinishedMark: string;
  /** Topics that have records, without the prefix. */
  readonly topicsWithRecords: readonly string[];
  readonly holdsVolume: boolean;
  readonly holdsProfiles: boolean;
  readonly holdsHistory: boolean;
  /** Stages whose consumer groups have members. */
  readonly runningStages: readonly string[];
  /** Topics that have other partitions than the data folder, as texts. */
  readonly otherPartitions: readonly string[];
  /** Topics that are missing although this command may not create them. */
  readonly missingTopics: readonly string[];
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
    !engines.holdsVolume &&
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
      ? `${sealed} secrets of destinations are sealed under keys of ${folder}/secret-keys.json, and other machines do not have them: set TRIBUTARY_SECRET_KEYS to the text in that file, here and for every process`
      : `${sealed} secrets of destinations are sealed: set TRIBUTARY_SECRET_KEYS to their keys, here and for every process`;
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
      ...(engines.holdsVolume ? ['counts'] : []),
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
          `the secrets of destinations are sealed under keys of ${folder}: processes with another data folder cannot open them`,
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

const LISTED = 5;

function listed(names: readonly string[]): string {
  const more = names.length - LISTED;
  return `${names.slice(0, LISTED).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}
