import { createHash, hash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import {
  copyFile,
  link,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  statfs,
  writeFile,
} from 'node:fs/promises';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { backup as copyDatabase, type DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { hasCode, messageOf, Unavailable } from '@tributary/core';
import { InvalidArgumentError } from 'commander';
import { withDropLock } from '../../adapters/event-log/sqlite/retention.ts';
import {
  isSealed,
  listSegments,
  publishNext,
  segmentFile,
  syncFolder,
  TOPIC_GROUPS,
} from '../../adapters/event-log/sqlite/segment-file.ts';
import { isBusy, openDatabase, translateSqliteError } from '../../adapters/sqlite/database.ts';
import { type Environment, readCommandConfig } from '../../runtime/config/config.ts';
import type { Config } from '../../runtime/config/settings.ts';
import { createLogger } from '../../runtime/observability/logger.ts';
import { buildVersion } from '../../runtime/observability/system-view.ts';
import {
  embeddedFolders,
  isDataEntry,
  lockFile,
  useFolderOfServer,
} from '../../runtime/process/data-folder.ts';
import { OperatorError, reportErrors, translateFileError } from '../../runtime/process/lifecycle.ts';

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
      const report = await backUp({ dataFolder, target, withKeys: keys, pointTimeoutMs: POINT_TIMEOUT_MS });
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

function describe(report: Awaited<ReturnType<typeof backUp>>, target: string, withKeys: boolean): string {
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
  /** How long to try to find a moment in which no store is being written to, ms. */
  readonly pointTimeoutMs: number;
}

/**
 * Backs up the embedded stores of a data folder, beside the processes that use it. The order of steps: the point; copies of
 * all databases, which end the read transactions; sealed segments; files; the manifest; the rename that finishes it. Killed
 * anywhere, it leaves an unfinished folder, which the next backup removes.
 */
export async function backUp(options: BackupOptions) {
  const { dataFolder, target, withKeys, pointTimeoutMs } = options;
  const stores = storeFiles(dataFolder, { withKeys });
  const installation = markedInstallation(dataFolder);
  if (stores.groups.length === 0 || installation === undefined)
    throw new OperatorError(`${dataFolder} holds no stores of Tributary, or none that was ever started`);
  await refuseDataFolder(target);
  const before = await newestBackup(target);
  if (before !== undefined && before.manifest.installation !== installation)
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
      version: buildVersion(),
      installation,
      point: { at: new Date(point.at).toISOString() },
      files: copy.files.sort((a, b) => (a.path < b.path ? -1 : 1)),
    };
    await writeManifest(draft, manifest);
    for (const folder of copy.folders) syncFolder(folder);
    const name = backupName(point.at);
    await rename(draft, join(target, name));
    syncFolder(target);
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
  /** Bytes of files that the backup before has too. */
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
  async snapshot(source: Reader, fingerprint?: string): Promise<void> {
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
  await requireSpace(draft, needed);
}

export async function requireSpace(folder: string, needed: number): Promise<void> {
  const { bavail, bsize } = await statfs(folder).catch((error: unknown) => {
    throw new OperatorError(`${folder} cannot be used: ${messageOf(error)}`, { cause: error });
  });
  const free = bavail * bsize;
  if (free < needed)
    throw new OperatorError(
      `${folder} has ${megabytes(free)} free, and the backup needs ${megabytes(needed)}`,
    );
}

/** Size of a database with its write-ahead log. */
function sizeOf(file: string): number {
  return ['', '-wal'].reduce(
    (sum, ending) => sum + (statSync(file + ending, { throwIfNoEntry: false })?.size ?? 0),
    0,
  );
}

/** The parts of a data folder that a backup reads, as absolute paths. Only existing ones are listed. */
export interface StoreFiles {
  /** Folders of the topic groups of the log. */
  readonly groups: readonly string[];
  /** Folders of dedupe claims: `windows.db` in each is the lock of the folder. */
  readonly dedupeClaims: readonly string[];
  /** Stores that are one database file each. */
  readonly databases: readonly string[];
  /** Files that are written once: marks of the installation, and keys. */
  readonly files: readonly string[];
  /** Entries of the data folder that a backup leaves out, by name. */
  readonly leftOut: readonly string[];
}

/** Files with secrets at the top of the data folder. */
const KEY_FILES = ['secret-keys.json', 'dev-issuer.json', 'quickstart.json'];

/**
 * What a data folder has beside its stores is left out without a word: locks, reports that are renewed within seconds, evidence of
 * crashes of this machine's processes, and what is made from the log. A snapshot of the catalog may be newer than the point.
 */
export function storeFiles(dataFolder: string, { withKeys }: { readonly withKeys: boolean }): StoreFiles {
  const folders = embeddedFolders({ dataFolder });
  const groups = groupFolders(dataFolder);
  const claims = [folders.dedupe, folders.reevaluated];
  const databases = [
    join(folders.volume, 'volume.db'),
    join(folders.funnel, 'funnel.db'),
    join(folders.profiles, 'profiles.db'),
    join(folders.history, 'history.db'),
  ];
  const marks = markFiles(dataFolder);
  const keys = KEY_FILES.map((name) => join(dataFolder, name));
  return {
    groups: groups.filter((folder) => existsSync(folder)),
    dedupeClaims: claims.filter((folder) => existsSync(join(folder, 'windows.db'))),
    databases: databases.filter((file) => existsSync(file)),
    files: [...marks, ...(withKeys ? keys : [])].filter((file) => existsSync(file)),
    leftOut: readdirSync(dataFolder).filter(
      (name) => !isDataEntry(name) || name === 'demo' || (!withKeys && KEY_FILES.includes(name)),
    ),
  };
}

function groupFolders(dataFolder: string): readonly string[] {
  const { log } = embeddedFolders({ dataFolder });
  return TOPIC_GROUPS.map((name) => join(log, name));
}

/** Whether a log of Tributary is in the folder. */
export function isDataFolder(folder: string): boolean {
  return groupFolders(folder).some((group) => existsSync(group));
}

/** The id in the marks of the stores; undefined where no process has marked one yet. */
export function markedInstallation(dataFolder: string): string | undefined {
  for (const file of markFiles(dataFolder)) {
    if (!existsSync(file)) continue;
    const id = readFileSync(file, 'utf8').trim();
    if (id !== '') return id;
  }
  return undefined;
}

function markFiles(dataFolder: string): readonly string[] {
  const { dedupe, volume, funnel, history, profiles } = embeddedFolders({ dataFolder });
  return [dedupe, volume, funnel, history, profiles].map((folder) => join(folder, 'installation'));
}

/** The files that destinations append to. */
export function appendedFiles(dataFolder: string): readonly string[] {
  const folder = join(dataFolder, 'ndjson');
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

/** The path of a file below the data folder, as a manifest has it. */
export function pathInFolder(dataFolder: string, file: string): string {
  return relative(dataFolder, file).split(sep).join('/');
}

/*
 * A target is a folder with one folder for each backup, named by the time of its point. Such a folder has the files of the
 * data folder under their own names, and `backup.json`, which describes them.
 */

/** The folder of a backup that is being made, or was killed. */
export const DRAFT = 'unfinished';

const MANIFEST = 'backup.json';
const NAME = /^\d{8}T\d{9}Z$/;
/** Raised with each change of the layout of a backup that an older release cannot restore. */
const FORMAT = 2;

export interface BackedUpFile {
  /** Below the data folder, with `/`. */
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
  /** Identifies a sealed segment, whose content never changes: the next backup links the file instead of copying it. */
  readonly fingerprint?: string;
}

export interface Manifest {
  readonly format: typeof FORMAT;
  /** The release that made the backup. */
  readonly version: string;
  /** Its id. */
  readonly installation: string;
  /** The moment that it is the state of. */
  readonly point: { readonly at: string };
  readonly files: readonly BackedUpFile[];
}

export interface StoredBackup {
  /** Names sort by time. */
  readonly name: string;
  readonly folder: string;
  readonly manifest: Manifest;
}

/** A backup that cannot be restored, with what is wrong with it. */
export class BackupFault extends OperatorError {}

export function backupName(at: number): string {
  return new Date(at).toISOString().replace(/[-:.]/g, '');
}

export function writeManifest(folder: string, content: Omit<Manifest, 'format'>): Promise<void> {
  const manifest: Manifest = { format: FORMAT, ...content };
  return writeFile(join(folder, MANIFEST), `${JSON.stringify(manifest, null, 1)}\n`, {
    mode: 0o600,
    flush: true,
  });
}

/** The names of the finished backups, oldest first. */
export async function backupNames(target: string): Promise<readonly string[]> {
  return (await entriesOf(target)).filter((name) => NAME.test(name)).sort();
}

async function entriesOf(target: string): Promise<readonly string[]> {
  try {
    return await readdir(target);
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return [];
    throw new OperatorError(`${target} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

/** `BackupFault` for a backup without a manifest, or with one that cannot be used. */
export async function readBackup(target: string, name: string): Promise<StoredBackup> {
  const folder = join(target, name);
  const text = await readFile(join(folder, MANIFEST), 'utf8').catch((error: unknown) => {
    throw new BackupFault(`${folder} is no whole backup: ${messageOf(error)}`, { cause: error });
  });
  return { name, folder, manifest: parseManifest(name, text) };
}

export function parseManifest(name: string, text: string): Manifest {
  const manifest = parsed(text);
  if (!Array.isArray(manifest?.files) || typeof manifest.point?.at !== 'string')
    throw new BackupFault(`the manifest of ${name} is damaged`);
  const { format, version, files } = manifest as Manifest;
  if (format !== FORMAT)
    throw new BackupFault(
      `${name} has format ${format}, this release restores format ${FORMAT}: use the release that made it, ${version}`,
    );
  if (!files.every(({ path }) => isInside(path)))
    throw new BackupFault(`the manifest of ${name} has a path outside of the data folder`);
  return manifest as Manifest;
}

function parsed(text: string): Partial<Manifest> | undefined {
  try {
    return Object(JSON.parse(text)) as Partial<Manifest>;
  } catch {
    return undefined;
  }
}

/** True for a relative path without steps upwards. */
function isInside(path: string): boolean {
  return (
    path !== '' && path.split('/').every((part) => !['', '.', '..'].includes(part) && !part.includes('\0'))
  );
}

/** The newest backup whose manifest can be read: a damaged one prevents its restore, not the next backup. */
export async function newestBackup(target: string): Promise<StoredBackup | undefined> {
  for (const name of (await backupNames(target)).toReversed())
    try {
      return await readBackup(target, name);
    } catch (error) {
      if (!(error instanceof BackupFault)) throw error;
    }
  return undefined;
}

/** The backup of that name, or the newest one. `OperatorError` where there is none that was finished. */
export async function findBackup(target: string, name?: string): Promise<StoredBackup> {
  const names = await backupNames(target);
  const wanted = name ?? names.at(-1);
  if (wanted !== undefined && names.includes(wanted)) return readBackup(target, wanted);
  if (names.length > 0)
    throw new OperatorError(
      `${target} has no backup ${name}: \`tributary restore --list\` names those it has`,
    );
  const entries = await entriesOf(target);
  if (entries.includes('manifests'))
    throw new OperatorError(
      `${target} holds backups of 0.2.0, in chunks: restore them with that release, or as docs/operations/backup.md says`,
    );
  throw new OperatorError(
    entries.includes(DRAFT)
      ? `${target} holds an unfinished backup only: there is nothing to restore`
      : `${target} holds no backup`,
  );
}

/** Removes all but the newest backups. Returns how many it removed. */
export async function removeOlder(target: string, keep: number): Promise<number> {
  const older = (await backupNames(target)).slice(0, -keep);
  for (const name of older) {
    // Renamed first: killed in between, it leaves no backup that has lost files.
    await rename(join(target, name), join(target, DRAFT));
    await rm(join(target, DRAFT), { recursive: true });
  }
  return older.length;
}

/** Makes a file that was written durable, and private to its owner. Returns its size and checksum. */
export async function finishFile(file: string): Promise<Pick<BackedUpFile, 'bytes' | 'sha256'>> {
  const handle = await open(file, 'r');
  try {
    await handle.chmod(0o600);
    await handle.sync();
  } finally {
    await handle.close();
  }
  return digestOf(file);
}

export async function digestOf(file: string): Promise<Pick<BackedUpFile, 'bytes' | 'sha256'>> {
  const digest = createHash('sha256');
  let bytes = 0;
  const handle = await open(file, 'r');
  for await (const chunk of handle.createReadStream({ highWaterMark: READ_BYTES })) {
    digest.update(chunk);
    bytes += chunk.length;
  }
  return { bytes, sha256: digest.digest('hex') };
}

const READ_BYTES = 1024 * 1024;

/**
 * Makes a folder and those above it that are missing, for their owner alone. By single steps: the recursive `mkdir` of Node
 * does not end below `/proc`, where a folder stays missing that could not be made.
 */
export async function makeFolders(folder: string): Promise<void> {
  try {
    await mkdir(folder, { mode: 0o700 });
  } catch (error) {
    if (await isFolder(folder)) return;
    const parent = dirname(folder);
    if (hasCode(error, 'ENOENT') && !(await isFolder(parent))) {
      await makeFolders(parent);
      return makeFolders(folder);
    }
    throw new OperatorError(`${folder} cannot be made: ${await whyNot(folder, error)}`, { cause: error });
  }
}

async function whyNot(path: string, error: unknown): Promise<string> {
  const target = await readlink(path).catch(() => undefined);
  return target === undefined ? messageOf(error) : `it is a link to ${target}, which does not exist`;
}

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() === true;
}

/** Refuses a folder that does not exist, with the target of a link that leads nowhere. */
export async function requireFolder(folder: string): Promise<void> {
  try {
    await stat(folder);
  } catch (error) {
    throw new OperatorError(`${folder} cannot be read: ${await whyNot(folder, error)}`, { cause: error });
  }
}

/** Writers wait while the locks are collected: after so long they are released, and taken again later. */
const MAX_LOCKED_MS = 1_000;
const RETRY_MS = 200;
/** Pages that one step of the copy takes. */
const PAGES_PER_STEP = 1_024;

/** The state of all stores at one moment. */
export interface BackupPoint {
  readonly at: number;
  /** How long writers waited at most, ms. */
  readonly writersWaitedMs: number;
  readonly snapshots: readonly Reader[];
  /** Sealed segments whose content cannot change, newest first within a folder. */
  readonly sealed: readonly { readonly folder: string; readonly sequence: number }[];
  close(): void;
}

/**
 * Takes the point: collects the write lock of every store, begins a read transaction in each, and releases the locks. In
 * WAL mode the read transactions keep that state while writers continue, so all copies are of one moment: the state that a
 * SIGKILL of all processes at that moment would have left.
 *
 * No deadlock: no writer of the stores waits for one of these locks while it holds another; claim files are written under
 * the lock of their `windows.db`. `Unavailable` when the locks cannot be had together for `timeoutMs`.
 */
export async function takePoint(stores: StoreFiles, timeoutMs: number): Promise<BackupPoint> {
  const deadline = performance.now() + timeoutMs;
  let writersWaitedMs = 0;
  const onWritersWaited = (ms: number) => {
    writersWaitedMs = Math.max(writersWaitedMs, ms);
  };
  for (;;) {
    try {
      const point = attemptPoint(stores, onWritersWaited);
      return { ...point, writersWaitedMs };
    } catch (error) {
      const translated = translateSqliteError(error);
      if (!(translated instanceof Unavailable) || performance.now() > deadline) throw translated;
    }
    await sleep(RETRY_MS * (0.5 + Math.random()));
  }
}

/** `Unavailable`, or an error of SQLite that means it, when a later attempt may succeed. */
function attemptPoint(
  stores: StoreFiles,
  onWritersWaited: (ms: number) => void,
): Omit<BackupPoint, 'writersWaitedMs'> {
  const segments = stores.groups.map((folder) => newestSegment(folder));
  const lists = stores.dedupeClaims.map((folder) => ({ folder, file: join(folder, 'windows.db') }));
  const locks = new Map<string, DatabaseSync>();
  const readers: Reader[] = [];
  let from = Number.POSITIVE_INFINITY;
  try {
    // Everything that is known is opened before any lock is held, as opening takes longest.
    for (const file of [...segments, ...lists].map((store) => store.file).concat(stores.databases)) {
      locks.set(file, openDatabase(file, { create: false, busyTimeoutMs: 0 }));
      readers.push(new Reader(file));
    }
    from = performance.now();
    for (const [file, database] of locks) acquire(file, database, from + MAX_LOCKED_MS);
    for (const { folder, sequence, file } of segments) {
      const database = locks.get(file);
      if (database === undefined || isSealed(database) || listSegments(folder).at(-1) !== sequence)
        throw new Unavailable(`${file} was sealed meanwhile`);
    }
    for (const { folder, file } of lists)
      for (const claims of dedupeClaimFiles(locks.get(file), folder)) readers.push(new Reader(claims));
    for (const reader of readers) reader.begin();
    const at = Date.now();
    const sealed = segments.flatMap(olderSegments);
    const snapshots = readers.splice(0);
    return {
      at,
      snapshots,
      sealed,
      close() {
        for (const snapshot of snapshots) snapshot.close();
      },
    };
  } finally {
    for (const database of locks.values()) database.close();
    onWritersWaited(Math.max(0, performance.now() - from));
    for (const reader of readers) reader.close();
  }
}

interface Segment {
  readonly folder: string;
  readonly sequence: number;
  readonly file: string;
}

/** Completes a roll that a killed process left, as every writer does. */
function newestSegment(folder: string): Segment {
  for (;;) {
    const sequence = listSegments(folder).at(-1);
    if (sequence === undefined) throw new Unavailable(`${folder} has no segment yet`);
    const file = segmentFile(folder, sequence);
    const database = openDatabase(file, { readOnly: true });
    try {
      if (!isSealed(database)) return { folder, sequence, file };
    } finally {
      database.close();
    }
    publishNext(folder, sequence);
  }
}

function olderSegments({ folder, sequence }: Segment) {
  return listSegments(folder)
    .filter((older) => older < sequence)
    .toReversed()
    .map((older) => ({ folder, sequence: older }));
}

function dedupeClaimFiles(list: DatabaseSync | undefined, folder: string): readonly string[] {
  return (list?.prepare('SELECT file FROM windows ORDER BY file').all() ?? [])
    .map(({ file }) => join(folder, `claims-${Number(file)}.db`))
    .filter((file) => existsSync(file));
}

const PAUSE = new Int32Array(new SharedArrayBuffer(4));
const PAUSE_MS = 0.1;

/**
 * Takes the write lock; `Unavailable` if it was not free until then. Polls far more often than SQLite's busy handler: a saturated
 * writer leaves a fraction of a millisecond between two transactions.
 */
function acquire(file: string, database: DatabaseSync, until: number): void {
  for (;;) {
    try {
      database.exec('BEGIN IMMEDIATE');
      return;
    } catch (error) {
      if (!isBusy(error) || performance.now() > until) throw translateSqliteError(error, file);
    }
    Atomics.wait(PAUSE, 0, 0, PAUSE_MS);
  }
}

/** The content of one database file at the point, held by a read transaction until `close`. */
class Reader {
  readonly file: string;
  readonly #database: DatabaseSync;

  constructor(file: string) {
    this.file = file;
    this.#database = openDatabase(file, { readOnly: true });
  }

  /** Begins the transaction; its state is that of the first read. */
  begin(): void {
    this.#database.exec('BEGIN');
    this.#database.prepare('SELECT count(*) FROM sqlite_schema').get();
  }

  /** Writes the content to a new file. SQLite's online backup copies what the open transaction sees, and never starts again. */
  async copyTo(target: string): Promise<void> {
    try {
      await copyDatabase(this.#database, target, { rate: PAGES_PER_STEP });
    } catch (error) {
      throw translateSqliteError(error);
    }
  }

  close(): void {
    if (this.#database.isOpen) this.#database.close();
  }
}

/** A sealed segment, read by itself. Undefined when retention removed it since the point. */
export function openSealed(
  folder: string,
  sequence: number,
): (Reader & { readonly fingerprint: string }) | undefined {
  const file = segmentFile(folder, sequence);
  try {
    const database = openDatabase(file, { readOnly: true });
    try {
      const parts = [
        'SELECT * FROM segment',
        'SELECT * FROM heads',
        'PRAGMA page_count',
        'PRAGMA user_version',
      ];
      const content = JSON.stringify(parts.map((sql) => database.prepare(sql).all()));
      const reader = new Reader(file);
      reader.begin();
      return Object.assign(reader, { fingerprint: hash('sha256', content) });
    } finally {
      database.close();
    }
  } catch (error) {
    if (!existsSync(file)) return undefined;
    throw translateSqliteError(error);
  }
}
