import type { Logger } from '@tributary/core';
import type { Config } from '../config/settings.ts';
import { startDeadline, untilAvailable } from '../process/await-engines.ts';
import { CleanupStack, OperatorError } from '../process/lifecycle.ts';
import { markAsMoved, movedMark } from '../process/moved-folder.ts';
import { engineStateOf, type MoveFacts, notesAbout, obstaclesTo } from './examination.ts';
import { comparePartition, copyPartition, type LogCopyTools, untilSettled } from './log-copy.ts';
import { inMoveOrder, type MoveSource, openMoveSource, sourceFacts } from './source.ts';
import { storeParts } from './store-copy.ts';
import { engineFacts, MoveProgress, type MoveTarget, openMoveTarget } from './target.ts';
import { unfinishedMark } from './unfinished.ts';

export interface MoveOptions {
  /** Prints what would be moved and what stands against it, and moves nothing. */
  readonly checkOnly: boolean;
  /** Leaves out deletions of profiles that cannot be moved. */
  readonly forgetDeletions: boolean;
  readonly print: (line: string) => void;
}

/**
 * Moves the installation of a data folder to the configured engines; see docs/decisions/0046-move-to-a-cluster.md. The caller
 * has the lock of the folder. Killed at any moment, the next call continues. Returns the exit code.
 */
export async function moveInstallation(
  config: Config,
  options: MoveOptions,
  logger: Logger,
): Promise<number> {
  const { print, checkOnly } = options;
  const cleanup = new CleanupStack();
  try {
    const deadline = startDeadline(config.startTimeoutMs, logger);
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
    if (state === 'finished') return reportFinished(config, facts, print);
    const obstacles = obstaclesTo(options.forgetDeletions ? withoutDeletions(facts) : facts);
    describe(source, facts, print);
    for (const note of notesAbout(facts)) print(`note     ${note}`);
    for (const obstacle of obstacles) print(`obstacle ${obstacle}`);
    if (checkOnly) {
      if (state === 'unfinished') print('an unfinished move would continue');
      if (obstacles.length === 0) print('nothing stands against the move');
      return obstacles.length === 0 ? 0 : 1;
    }
    if (obstacles.length > 0 || installation === undefined)
      throw new OperatorError('nothing was moved: remove the obstacles, and run this again');
    await move({ config, source, target, installation, state, logger, print });
    return 0;
  } finally {
    await cleanup.close();
  }
}

function withoutDeletions(facts: MoveFacts): MoveFacts {
  return { ...facts, forgottenDeletions: { count: 0, until: 0 } };
}

function reportFinished(config: Config, { installation }: MoveFacts, print: MoveOptions['print']): number {
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
function describe(source: MoveSource, facts: MoveFacts, print: MoveOptions['print']): void {
  const { partitions, positions, volume, history, profiles } = source;
  const records = partitions.reduce((sum, { first, end }) => sum + end - first, 0);
  const dropped = partitions.reduce((sum, { first }) => sum + first, 0);
  const counts = profiles?.counts();
  const entries = history?.counts().reduce((sum, { count }) => sum + count, 0) ?? 0;
  print(`folder   ${facts.folder}, installation ${facts.installation ?? 'without an id'}`);
  print(
    `log      ${number(records)} records of ${new Set(partitions.map(({ topic }) => topic)).size} topics; offsets begin after ${number(dropped)} dropped ones`,
  );
  print(`stages   ${positions.length} positions`);
  print(`counts   of ${volume?.applied().length ?? 0} partitions`);
  print(`profiles ${number(counts?.live ?? 0)}, and ${number(counts?.deleted ?? 0)} remembered deletions`);
  print(`history  ${number(entries)} entries`);
}

interface Move {
  readonly config: Config;
  readonly source: MoveSource;
  readonly target: MoveTarget;
  readonly installation: string;
  readonly state: ReturnType<typeof engineStateOf>;
  readonly logger: Logger;
  readonly print: MoveOptions['print'];
}

/** Each step may be repeated; the marks of the stores are what a repetition, and every other process, goes by. */
async function move(all: Move): Promise<void> {
  const { config, source, target, installation, state, logger, print } = all;
  const startTimeoutMs = config.startTimeoutMs;
  const attempt = <T>(what: string, work: () => Promise<T>) =>
    untilAvailable(what, startDeadline(startTimeoutMs, logger), work);
  const { marks, records, log } = target;
  const unfinished = unfinishedMark(installation);
  const [redisMark] = marks.others;
  if (redisMark === undefined) throw new Error('there is no mark of Redis');

  // From here on no process uses the engines.
  for (const mark of [redisMark, marks.profiles]) {
    const found = await attempt(`marking ${mark.store}`, () => mark.claim(unfinished));
    if (found !== unfinished && found !== installation)
      throw new OperatorError(`${mark.store} was taken by ${found} meanwhile: nothing was moved`);
  }
  const progress = new MoveProgress(target.redis, config.prefix);
  await attempt('beginning', () => progress.begin(source.fingerprint));
  if (state === 'unfinished') print('an unfinished move continues');
  await attempt('preparing the topics', () => records.prepareTopics(config.createTopics));
  if (config.createTopics) await attempt('creating the topics', () => log.createTopics());

  const logTools: LogCopyTools = { source, target, startTimeoutMs, logger };
  if (state === 'unfinished') await untilSettled(logTools, source.partitions);
  const parts = storeParts({ source, target, progress, prefix: config.prefix, startTimeoutMs, logger });
  for (const part of parts) {
    const begun = performance.now();
    await part.copy();
    print(`copied   ${part.name} (${seconds(begun)})`);
  }
  for (const { spec, partitions } of inMoveOrder(source)) {
    const begun = performance.now();
    const copied = await Promise.all(partitions.map((one) => copyPartition(logTools, one)));
    const count = copied.reduce((sum, one) => sum + one, 0);
    print(`copied   ${spec.name}: ${number(count)} records (${seconds(begun)})`);
  }
  await attempt('storing the positions', () => log.importPositions(source.positions));

  await compare(all, logTools, parts);

  const altered = await attempt('altering the topics', () => log.alterTopics());
  logger.info({ altered: altered.length }, 'topics keep their records as long as configured from now on');
  // First, so that the installation never runs in two places.
  markAsMoved(config.dataFolder, {
    installation,
    at: new Date().toISOString(),
    to: `Kafka at ${config.kafkaBrokers.join(',')}, prefix "${config.prefix}"`,
  });
  await attempt('finishing', () => progress.clear());
  for (const mark of [marks.profiles, redisMark])
    await attempt(`marking ${mark.store}`, () => mark.replace(installation));
  print(
    `the installation ${installation} is moved: start gateways and processors with these settings; ${config.dataFolder} is marked, and does not start any more`,
  );
}

/** Compares everything, and prints a table. `OperatorError` if anything differs. */
async function compare(
  { source, print }: Move,
  logTools: LogCopyTools,
  parts: ReturnType<typeof storeParts>,
): Promise<void> {
  print('comparing everything');
  const rows: { readonly name: string; readonly here: number; readonly there: number }[] = [];
  for (const { spec, partitions } of inMoveOrder(source)) {
    const same = await Promise.all(partitions.map((one) => comparePartition(logTools, one)));
    const there = same.reduce((sum, one) => sum + one, 0);
    rows.push({
      name: spec.name,
      here: partitions.reduce((sum, { first, end }) => sum + end - first, 0),
      there,
    });
  }
  for (const part of parts) rows.push({ name: part.name, ...(await part.compare()) });
  print(table(rows));
  const different = rows.filter(({ here, there }) => here !== there).map(({ name }) => name);
  if (different.length > 0)
    throw new OperatorError(
      `the engines have other ${different.join(', ')} than the data folder: the move is not finished, and nothing starts on them`,
    );
}

export function table(
  rows: readonly { readonly name: string; readonly here: number; readonly there: number }[],
): string {
  const cells = rows.map(({ name, here, there }) => [name, number(here), number(there)] as const);
  const head = ['compared', 'data folder', 'engines'] as const;
  const widths = head.map((title, at) =>
    Math.max(title.length, ...cells.map((row) => (row[at] ?? '').length)),
  );
  return [head, ...cells]
    .map(([name, here, there]) =>
      [name.padEnd(widths[0] ?? 0), here.padStart(widths[1] ?? 0), there.padStart(widths[2] ?? 0)].join('  '),
    )
    .join('\n');
}

function number(value: number): string {
  return value.toLocaleString('en');
}

function seconds(since: number): string {
  return `${((performance.now() - since) / 1_000).toFixed(1)} s`;
}
