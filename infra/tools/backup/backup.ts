import { existsSync, statSync } from 'node:fs';
import { copyFile, link, realpath, rename, rm, stat, statfs } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { messageOf, Unavailable } from '@tributary/core';
import { InvalidArgumentError } from 'commander';
import { withDropLock } from '../../adapters/event-log/sqlite/retention.ts';
import { segmentFile } from '../../adapters/event-log/sqlite/segment-file.ts';
import { type Environment, readCommandConfig } from '../../runtime/config/config.ts';
import type { Config } from '../../runtime/config/settings.ts';
import { buildVersion } from '../../runtime/observability/build-info.ts';
import { createLogger } from '../../runtime/observability/logger.ts';
import { lockFile } from '../../runtime/process/data-folder.ts';
import { OperatorError, reportErrors, translateFileError } from '../../runtime/process/lifecycle.ts';
import { useFolderOfServer } from '../../runtime/process/usable-folder.ts';
import { type BackupPoint, type DatabaseSnapshot, openSealed, takePoint } from './point.ts';
import {
  type BackedUpFile,
  backupName,
  DRAFT,
  finishFile,
  type Manifest,
  makeFolders,
  newestBackup,
  removeOlder,
  type StoredBackup,
  syncFolders,
  UNNAMED,
  writeManifest,
} from './stored-backups.ts';
import {
  appendedFiles,
  isDataFolder,
  markedInstallation,
  pathInFolder,
  type StoreFiles,
  storeFiles,
} from './stores.ts';

const POINT_TIMEOUT_MS = 60_000;

export interface BackupCommandOptions {
  /** How many backups the target keeps. */
  readonly keep?: string;
  /** False with `--no-keys`. */
  readonly keys: boolean;
}

/**
 * `tributary backup <target> [--keep n] [--no-keys]`: backs up the embedded stores at one moment, beside the processes that
 * use them. One backup of a data folder runs at a time.
 */
export async function backup(
  where: string,
  { keep, keys }: BackupCommandOptions,
  environment: Environment,
): Promise<number> {
  const kept = keep === undefined ? undefined : Number(keep);
  if (kept !== undefined && !(Number.isInteger(kept) && kept > 0))
    throw new InvalidArgumentError('--keep must be a whole number above 0');
  const config = readCommandConfig(environment);
  return reportErrors('backup', async () => {
    refuseEngines(config);
    const { dataFolder } = config;
    if (!existsSync(dataFolder)) throw new OperatorError(`${dataFolder} does not exist`);
    useFolderOfServer(config, createLogger(config.logLevel, { part: 'backup' }));
    const lock = lockFile(
      join(dataFolder, 'backup.lock'),
      () => new OperatorError(`another backup of ${dataFolder} is running`),
    );
    const target = targetFolder(where);
    try {
      const options = { dataFolder, target, withKeys: keys, version: buildVersion() };
      const report = await backUp({ ...options, pointTimeoutMs: POINT_TIMEOUT_MS });
      process.stdout.write(describe(report, target, keys));
      if (kept !== undefined) {
        const removed = await removeOlder(target, kept);
        process.stdout.write(`${removed} older ${removed === 1 ? 'backup' : 'backups'} removed\n`);
      }
      return 0;
    } catch (error) {
      throw translateFileError(error);
    } finally {
      lock.release();
    }
  });
}

/** The absolute path of a folder of backups. */
export function targetFolder(where: string): string {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(where))
    throw new OperatorError(
      `${where} is no folder: back up to a folder, and copy it with a tool such as restic or rclone (docs/operations/backup.md)`,
    );
  return resolve(where);
}

/** Stores on engines have no common point with those in the data folder. */
function refuseEngines({ kafkaBrokers, redisUrl, elasticsearchUrl }: Config): void {
  const engines = [
    ...(kafkaBrokers.length > 0 ? ['KAFKA_BROKERS'] : []),
    ...(redisUrl === undefined ? [] : ['REDIS_URL']),
    ...(elasticsearchUrl === undefined ? [] : ['ELASTICSEARCH_URL']),
  ];
  if (engines.length > 0)
    throw new OperatorError(
      `${engines.join(', ')} ${engines.length === 1 ? 'is' : 'are'} set: this command backs up the stores in the data folder alone, and those of engines are backed up by their own tools, see docs/operations/backup.md`,
    );
}

function describe(report: BackupReport, target: string, withKeys: boolean): string {
  const { manifest, name, writersWaitedMs, linkedBytes, leftOut } = report;
  const bytes = manifest.files.reduce((sum, file) => sum + file.bytes, 0);
  const lines = [
    `backup ${name} of the installation ${manifest.installation} is in ${join(target, name)}`,
    `the state of ${manifest.point.at}: ${manifest.files.length} files, ${megabytes(bytes)}; ${megabytes(bytes - linkedBytes)} copied, ${megabytes(linkedBytes)} linked to the backup before`,
    `writers waited up to ${Math.ceil(writersWaitedMs)} ms`,
    ...(withKeys
      ? [
          'it holds the keys of the data folder: anybody who can read it can unseal the secrets of destinations',
        ]
      : [
          'keys are not in it: keep secret-keys.json elsewhere, without it no destination with a secret works',
        ]),
    ...(leftOut.length === 0 ? [] : [`not in it: ${leftOut.join(', ')}`]),
  ];
  return `${lines.join('\n')}\n`;
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

interface BackupOptions {
  readonly dataFolder: string;
  /** Absolute path of the folder of backups. */
  readonly target: string;
  /** Whether the files with keys are part of it. */
  readonly withKeys: boolean;
  /** The release. */
  readonly version: string;
  /** How long to try to find a moment in which no store is being written to, ms. */
  readonly pointTimeoutMs: number;
}

interface BackupReport {
  readonly name: string;
  readonly manifest: Omit<Manifest, 'format'>;
  readonly writersWaitedMs: number;
  /** Bytes of files that the backup before has too. */
  readonly linkedBytes: number;
  readonly leftOut: readonly string[];
}

/**
 * Backs up the embedded stores of a data folder, beside the processes that use it. The order of steps: the point; copies of
 * all databases, which end the read transactions; sealed segments; files; the manifest; the rename that finishes it. Killed
 * anywhere, it leaves an unfinished folder, which the next backup removes.
 */
export async function backUp(options: BackupOptions): Promise<BackupReport> {
  const { dataFolder, target, withKeys, version, pointTimeoutMs } = options;
  const stores = storeFiles(dataFolder, { withKeys });
  if (stores.groups.length === 0)
    throw new OperatorError(`${dataFolder} holds no stores of Tributary, or none that was ever started`);
  await refuseDataFolder(target);
  const before = await newestBackup(target);
  const installation = markedInstallation(dataFolder) ?? UNNAMED;
  if (before !== undefined && ![UNNAMED, installation].includes(before.manifest.installation))
    throw new OperatorError(
      `${target} holds backups of the installation ${before.manifest.installation}, and ${dataFolder} is of ${installation}: name another target`,
    );
  await makeFolders(target);
  const draft = join(target, DRAFT);
  try {
    // Nothing changes in sealed segments meanwhile; retention may remove them.
    const { point, copy } = await withDropLocks(stores.groups, () =>
      copyStores({ dataFolder, stores, draft, before, pointTimeoutMs }),
    );
    // After the point: deliveries up to then are in the files of the destinations.
    for (const file of [...stores.files, ...appendedFiles(dataFolder)]) await copy.file(file);
    const manifest = {
      version,
      installation,
      point: { at: new Date(point.at).toISOString(), log: point.ends },
      files: copy.files.sort((a, b) => (a.path < b.path ? -1 : 1)),
    };
    await writeManifest(draft, manifest);
    await syncFolders(copy.folders);
    const name = backupName(point.at);
    await rename(draft, join(target, name));
    await syncFolders([target]);
    const { writersWaitedMs } = point;
    return { name, manifest, writersWaitedMs, linkedBytes: copy.linkedBytes, leftOut: stores.leftOut };
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** Refuses a place in the data folder of any installation: a backup there would be lost with it, or disturb the other one. */
async function refuseDataFolder(place: string): Promise<void> {
  let at = await realPath(place);
  for (let parent = dirname(at); at !== parent; [at, parent] = [parent, dirname(parent)])
    if (isDataFolder(at))
      throw new OperatorError(
        `${place} is in the data folder ${at}: name a place outside of the data folders of Tributary`,
      );
}

/** As the system resolves it, also where its last parts do not exist yet. */
async function realPath(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch {
    return path === dirname(path) ? path : join(await realPath(dirname(path)), basename(path));
  }
}

interface StoresToCopy {
  readonly dataFolder: string;
  readonly stores: StoreFiles;
  readonly draft: string;
  readonly before: StoredBackup | undefined;
  readonly pointTimeoutMs: number;
}

/** How often a backup begins again because retention removed a segment of its point. */
const MAX_POINTS = 5;

async function copyStores(
  context: StoresToCopy,
): Promise<{ readonly point: BackupPoint; readonly copy: FolderCopy }> {
  for (let attempt = 1; ; attempt++) {
    // Files of a backup that was killed, or of the attempt before.
    await rm(context.draft, { recursive: true, force: true });
    const point = await takePoint(context.stores, context.pointTimeoutMs);
    const copy = new FolderCopy(context);
    try {
      await makeFolders(context.draft);
      await checkSpace(context, point);
      // Until its read transaction ends, a store's write-ahead log only grows.
      for (const snapshot of point.snapshots) {
        await copy.snapshot(snapshot);
        snapshot.close();
      }
    } finally {
      point.close();
    }
    if (await copySealed(point, copy)) return { point, copy };
    if (attempt === MAX_POINTS)
      throw new Unavailable(
        'retention removed segments of the log at each attempt: start the backup again, more of them are expired',
      );
  }
}

/** False if retention removed one since the point: a stage may not have read it then. */
async function copySealed({ sealed }: BackupPoint, copy: FolderCopy): Promise<boolean> {
  for (const { folder, sequence } of sealed) {
    const segment = openSealed(folder, sequence);
    if (segment === undefined) return false;
    try {
      await copy.snapshot(segment, segment.fingerprint);
    } finally {
      segment.close();
    }
  }
  return true;
}

/** Copies files of a data folder to the same paths below the draft. */
class FolderCopy {
  readonly #dataFolder: string;
  readonly #draft: string;
  readonly #before: StoredBackup | undefined;
  readonly #known: ReadonlyMap<string, BackedUpFile>;
  readonly files: BackedUpFile[] = [];
  /** Folders with new entries. */
  readonly folders = new Set<string>();
  linkedBytes = 0;

  constructor({ dataFolder, draft, before }: StoresToCopy) {
    this.#dataFolder = dataFolder;
    this.#draft = draft;
    this.#before = before;
    this.#known = new Map((before?.manifest.files ?? []).map((file) => [file.path, file]));
  }

  async file(source: string): Promise<void> {
    const { path, to } = await this.#place(source);
    await copyFile(source, to);
    this.files.push({ path, ...(await finishFile(to)) });
  }

  /** `fingerprint`: of a database that never changes. */
  async snapshot(source: DatabaseSnapshot, fingerprint?: string): Promise<void> {
    const { path, to } = await this.#place(source.file);
    const earlier = this.#known.get(path);
    if (
      fingerprint !== undefined &&
      earlier?.fingerprint === fingerprint &&
      (await linked(join(this.#before?.folder ?? '', path), to, earlier.bytes))
    ) {
      this.linkedBytes += earlier.bytes;
      this.files.push(earlier);
      return;
    }
    await source.copyTo(to);
    this.files.push({
      path,
      ...(await finishFile(to)),
      ...(fingerprint === undefined ? {} : { fingerprint }),
    });
  }

  async #place(source: string): Promise<{ readonly path: string; readonly to: string }> {
    const path = pathInFolder(this.#dataFolder, source);
    const to = join(this.#draft, path);
    for (let folder = dirname(to); !this.folders.has(folder); folder = dirname(folder)) {
      this.folders.add(folder);
      if (folder === this.#draft) break;
    }
    await makeFolders(dirname(to));
    return { path, to };
  }
}

/** False where the file is not there any more in its size, or the disk has no links. */
async function linked(file: string, to: string, bytes: number): Promise<boolean> {
  try {
    if ((await stat(file)).size !== bytes) return false;
    await link(file, to);
    return true;
  } catch {
    return false;
  }
}

function withDropLocks<T>(folders: readonly string[], work: () => Promise<T>): Promise<T> {
  const [first, ...others] = folders;
  return first === undefined ? work() : withDropLock(first, () => withDropLocks(others, work));
}

/** Room for the copies of the databases and of the sealed segments that the backup before does not have. */
async function checkSpace({ draft, dataFolder, before }: StoresToCopy, point: BackupPoint): Promise<void> {
  const known = new Set(before?.manifest.files.map(({ path }) => path));
  const sealed = point.sealed
    .map(({ folder, sequence }) => segmentFile(folder, sequence))
    .filter((file) => !known.has(pathInFolder(dataFolder, file)));
  const needed = [...point.snapshots.map(({ file }) => file), ...sealed].reduce(
    (sum, file) => sum + sizeOf(file),
    0,
  );
  const { bavail, bsize } = await statfs(draft).catch((error: unknown) => {
    throw new OperatorError(`${draft} cannot be used: ${messageOf(error)}`, { cause: error });
  });
  const free = bavail * bsize;
  if (free < needed)
    throw new OperatorError(
      `${draft} has ${mebibytes(free)} MiB free, and the backup needs ${mebibytes(needed)} MiB`,
    );
}

/** Size of a database with its write-ahead log. */
function sizeOf(file: string): number {
  return ['', '-wal'].reduce(
    (sum, ending) => sum + (statSync(file + ending, { throwIfNoEntry: false })?.size ?? 0),
    0,
  );
}

function mebibytes(bytes: number): number {
  return Math.ceil(bytes / (1024 * 1024));
}
