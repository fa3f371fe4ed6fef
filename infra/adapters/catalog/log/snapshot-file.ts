import { createHash, randomUUID } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type CatalogRow, type CatalogState, messageOf, RowsReader } from '@tributary/core';

const FORMAT = 'tributary-catalog-1';
/** Size of one line of rows: written and read without yielding to the event loop. */
const LINE_BYTES = 256 * 1024;
/** Age at which an unfinished file is removed as the remains of a killed process, ms. */
const ABANDONED_AFTER_MS = 3_600_000;
const NEWLINE = 0x0a;

/** The position of a snapshot, and the data to verify that it is of a given log. */
export interface SnapshotHeader {
  /** Version of the fold that wrote it. */
  readonly fold: number;
  readonly position: number;
  /** Offset and SHA-256 of the last fact below the position. */
  readonly last: { readonly offset: number; readonly sha256: string };
}

export interface Snapshot extends SnapshotHeader {
  readonly state: CatalogState;
}

/** Why an existing file cannot be used. */
export interface UnusableSnapshot {
  readonly unusable: string;
}

/**
 * Writes a temporary file and renames it, so that readers see either the old file or the complete new one. Yields to the
 * event loop between lines. Lines of JSON: a header, rows, and the SHA-256 of all lines above.
 */
export async function writeSnapshot(
  file: string,
  header: SnapshotHeader,
  rows: readonly CatalogRow[],
): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  await removeAbandoned(file);
  const draft = `${file}.${randomUUID()}`;
  try {
    const handle = await open(draft, 'wx', 0o600);
    try {
      const hash = createHash('sha256');
      for (const line of linesOf(header, rows)) {
        hash.update(line);
        await handle.write(line);
        await nextTurn();
      }
      await handle.write(`${JSON.stringify({ sha256: hash.digest('hex') })}\n`);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
  await syncFolder(dirname(file));
}

function* linesOf(header: SnapshotHeader, rows: readonly CatalogRow[]): Generator<string> {
  yield `${JSON.stringify({ format: FORMAT, ...header })}\n`;
  let texts: string[] = [];
  let bytes = 0;
  for (const row of rows) {
    const text = JSON.stringify(row);
    texts.push(text);
    bytes += text.length;
    if (bytes < LINE_BYTES) continue;
    yield `[${texts.join(',')}]\n`;
    [texts, bytes] = [[], 0];
  }
  if (texts.length > 0) yield `[${texts.join(',')}]\n`;
}

/** The snapshot of a file; undefined when there is none. An incomplete file, or one of another fold, is unusable. */
export async function readSnapshot(
  file: string,
  fold: number,
): Promise<Snapshot | UnusableSnapshot | undefined> {
  const bytes = await ifExists(readFile(file));
  if (bytes === undefined) return undefined;
  const endOfRows = bytes.lastIndexOf(NEWLINE, bytes.length - 2) + 1;
  const written = parsed(bytes.subarray(endOfRows)) as { sha256?: unknown } | undefined;
  const isComplete =
    written?.sha256 === createHash('sha256').update(bytes.subarray(0, endOfRows)).digest('hex');
  if (!isComplete) return { unusable: 'it is damaged or incomplete' };
  const lines = linesIn(bytes.subarray(0, endOfRows));
  const header = parsed(lines.next().value ?? Buffer.alloc(0)) as
    | (SnapshotHeader & { format?: unknown })
    | undefined;
  if (header?.format !== FORMAT || header.fold !== fold)
    return { unusable: 'another release of Tributary wrote it' };
  const reader = new RowsReader();
  try {
    for (const line of lines) {
      for (const row of JSON.parse(line.toString('utf8')) as readonly CatalogRow[]) reader.add(row);
      await nextTurn();
    }
  } catch (error) {
    return { unusable: `its rows are invalid: ${messageOf(error)}` };
  }
  const { position, last } = header;
  return { fold, position, last, state: reader.state };
}

/** The position of a snapshot file; -1 when there is none, or it cannot be read. */
export async function positionOfSnapshot(file: string, fold: number): Promise<number> {
  try {
    const handle = await open(file, 'r');
    try {
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(4096), 0, 4096, 0);
      const end = buffer.subarray(0, bytesRead).indexOf(NEWLINE);
      const header = parsed(buffer.subarray(0, Math.max(0, end))) as Partial<SnapshotHeader> | undefined;
      return header?.fold === fold && typeof header.position === 'number' ? header.position : -1;
    } finally {
      await handle.close();
    }
  } catch {
    return -1;
  }
}

function* linesIn(bytes: Buffer): Generator<Buffer> {
  for (let from = 0; from < bytes.length; ) {
    const end = bytes.indexOf(NEWLINE, from);
    yield bytes.subarray(from, end);
    from = end + 1;
  }
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    return undefined;
  }
}

async function ifExists<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Removes the file and all drafts. A process that is writing a draft fails to rename it, and tries again later. */
export async function removeSnapshots(file: string): Promise<void> {
  for (const draft of await draftsOf(file)) await rm(draft, { force: true });
  await rm(file, { force: true });
}

async function removeAbandoned(file: string): Promise<void> {
  for (const draft of await draftsOf(file)) {
    const since = await stat(draft).catch(() => undefined);
    if (since !== undefined && Date.now() - since.mtimeMs > ABANDONED_AFTER_MS)
      await rm(draft, { force: true });
  }
}

async function draftsOf(file: string): Promise<readonly string[]> {
  const names = await ifExists(readdir(dirname(file)));
  if (names === undefined) return [];
  return names
    .filter((name) => name.startsWith(`${basename(file)}.`))
    .map((name) => join(dirname(file), name));
}

/** Makes a rename survive a power cut. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
