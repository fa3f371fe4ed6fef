import { statSync } from 'node:fs';
import { mkdir, rm, statfs } from 'node:fs/promises';
import { basename, join, sep } from 'node:path';
import { Unavailable } from '@tributary/core';
import { withDropLock } from '../../adapters/event-log/sqlite/segments/drop-below.ts';
import { OperatorError } from '../process/lifecycle.ts';
import { ChunkWriter } from './chunks.ts';
import { newestManifest } from './finished.ts';
import {
  type BackedUpFile,
  backupName,
  createManifest,
  digestOf,
  type Manifest,
  manifestKey,
  manifestText,
} from './manifest.ts';
import { type BackupPoint, type DatabaseSnapshot, openSealed, takePoint } from './point.ts';
import { appendedFiles, markedInstallation, pathInFolder, type StoreFiles, storeFiles } from './stores.ts';
import type { BackupTarget } from './target.ts';

export interface BackupOptions {
  readonly dataFolder: string;
  readonly target: BackupTarget;
  /** Whether the files with keys are part of it. */
  readonly withKeys: boolean;
  /** The release. */
  readonly version: string;
  /** How long to try to find a moment in which no store is being written to, ms. */
  readonly pointTimeoutMs: number;
}

export interface BackupReport {
  readonly name: string;
  readonly manifest: Manifest;
  readonly writersWaitedMs: number;
  readonly storedBytes: number;
  readonly reusedBytes: number;
  readonly leftOut: readonly string[];
}

/**
 * Backs up the embedded stores of a data folder, beside the processes that use it. The order of steps: the point; copies of
 * all databases, which end the read transactions; their chunks; sealed segments; files; the manifest. Killed anywhere, it
 * leaves chunks without a manifest, which the next backup uses.
 */
export async function backUp(options: BackupOptions): Promise<BackupReport> {
  const { dataFolder, target, withKeys, version, pointTimeoutMs } = options;
  const installation = markedInstallation(dataFolder);
  if (installation === undefined)
    throw new OperatorError(`${dataFolder} holds no stores of Tributary, or none that was ever started`);
  const before = await newestManifest(target);
  if (before !== undefined && before.installation !== installation)
    throw new OperatorError(
      `${target.name} holds backups of the installation ${before.installation}, and ${dataFolder} is of ${installation}: name another target`,
    );
  if (isBelow(target.name, dataFolder))
    throw new OperatorError(
      `${target.name} is in the data folder, and would be lost with it: name another place`,
    );
  const stores = storeFiles(dataFolder, { withKeys });
  const chunks = new ChunkWriter(target, await target.list('chunks'), before?.files ?? []);
  const staging = target.staging ?? join(dataFolder, 'backup-staging');
  try {
    // Files of a backup that was killed.
    await rm(staging, { recursive: true, force: true });
    await mkdir(staging, { recursive: true, mode: 0o700 });
    // Nothing changes in sealed segments meanwhile; retention may remove them.
    const { point, files } = await withDropLocks(stores.groups, () =>
      backUpStores({ dataFolder, stores, staging, before, chunks, pointTimeoutMs }),
    );
    // After the point: deliveries up to then are in the files of the destinations.
    for (const file of [...stores.files, ...appendedFiles(dataFolder)])
      files.push(await chunks.write(pathInFolder(dataFolder, file), file));
    const manifest = createManifest({
      version,
      installation,
      point: { at: new Date(point.at).toISOString(), log: point.ends },
      files: files.sort((a, b) => (a.path < b.path ? -1 : 1)),
    });
    const key = manifestKey(point.at);
    await target.put(key, Buffer.from(manifestText(manifest)));
    const { storedBytes, reusedBytes } = chunks;
    return {
      name: backupName(key),
      manifest,
      writersWaitedMs: point.writersWaitedMs,
      storedBytes,
      reusedBytes,
      leftOut: stores.leftOut,
    };
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

function isBelow(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder + sep);
}

interface StoresBackup {
  readonly dataFolder: string;
  readonly stores: StoreFiles;
  readonly staging: string;
  readonly before: Manifest | undefined;
  readonly chunks: ChunkWriter;
  readonly pointTimeoutMs: number;
}

/** How often a backup begins again because retention removed a segment of its point. */
const MAX_POINTS = 5;

async function backUpStores(
  context: StoresBackup,
): Promise<{ readonly point: BackupPoint; readonly files: BackedUpFile[] }> {
  for (let attempt = 1; ; attempt++) {
    const point = await takePoint(context.stores, context.pointTimeoutMs);
    const files = [...(await backUpSnapshots(point, context)), ...(await backUpSealed(point, context))];
    const complete = files.filter((file) => file !== undefined);
    if (complete.length === files.length) return { point, files: complete };
    // A stage may not have read the segment at the point; chunks that are stored already are taken over.
    if (attempt === MAX_POINTS)
      throw new Unavailable(
        'retention removed segments of the log at each attempt: start the backup again, more of them are expired',
      );
  }
}

/** Copies all databases first: until its read transaction ends, a store's write-ahead log only grows. */
async function backUpSnapshots(
  point: BackupPoint,
  { dataFolder, staging, chunks }: StoresBackup,
): Promise<readonly BackedUpFile[]> {
  const staged: { readonly path: string; readonly copy: string }[] = [];
  try {
    await checkSpace(staging, point.snapshots);
    for (const [index, snapshot] of point.snapshots.entries()) {
      const copy = join(staging, `${index}.db`);
      await snapshot.copyTo(copy);
      snapshot.close();
      staged.push({ path: pathInFolder(dataFolder, snapshot.file), copy });
    }
  } finally {
    point.close();
  }
  const files: BackedUpFile[] = [];
  for (const { path, copy } of staged) {
    files.push(await chunks.write(path, copy));
    await rm(copy);
  }
  return files;
}

/** Undefined for each segment that retention removed since the point. */
async function backUpSealed(
  { sealed }: BackupPoint,
  context: StoresBackup,
): Promise<readonly (BackedUpFile | undefined)[]> {
  const known = new Map((context.before?.files ?? []).map((file) => [file.path, file]));
  const files: (BackedUpFile | undefined)[] = [];
  for (const { folder, sequence } of sealed) {
    const segment = openSealed(folder, sequence);
    files.push(segment === undefined ? undefined : await backUpSegment(segment, context, known));
  }
  return files;
}

async function backUpSegment(
  segment: DatabaseSnapshot & { readonly fingerprint: string },
  { dataFolder, staging, chunks }: StoresBackup,
  known: ReadonlyMap<string, BackedUpFile>,
): Promise<BackedUpFile> {
  const path = pathInFolder(dataFolder, segment.file);
  const fingerprint = digestOf(segment.fingerprint);
  try {
    const earlier = known.get(path);
    if (earlier?.fingerprint === fingerprint && chunks.has(earlier)) return chunks.reuse(earlier);
    const copy = join(staging, basename(segment.file));
    await segment.copyTo(copy);
    const file = await chunks.write(path, copy);
    await rm(copy);
    return { ...file, fingerprint };
  } finally {
    segment.close();
  }
}

function withDropLocks<T>(folders: readonly string[], work: () => Promise<T>): Promise<T> {
  const [first, ...others] = folders;
  return first === undefined ? work() : withDropLock(first, () => withDropLocks(others, work));
}

/** Room for the copies of all databases at once, and afterwards for one sealed segment. */
async function checkSpace(staging: string, snapshots: readonly DatabaseSnapshot[]): Promise<void> {
  const needed = snapshots.reduce((sum, { file }) => sum + sizeOf(file), 0);
  const { bavail, bsize } = await statfs(staging);
  const free = bavail * bsize;
  if (free < needed)
    throw new OperatorError(
      `${staging} has ${mebibytes(free)} MiB free, and copies of the databases need ${mebibytes(needed)} MiB until the backup is done`,
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
