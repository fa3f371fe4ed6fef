import { constants } from 'node:fs';
import { access, type FileHandle, open, readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import {
  type Connector,
  type ConnectorDescription,
  type ConnectorDestination,
  type Delivery,
  type DeliveryResult,
  iso,
  type JsonObject,
} from '@tributary/core';
import { Deadlines } from '../client/deadlines.ts';
import { deliveryJson } from '../delivery-body.ts';
import { Closed, codeOf, DELIVERED, FolderRefused, NOT_VALID, STOPPED, testResultOf } from '../failures.ts';
import {
  classifyFolderFailure,
  folderFaults,
  folderField,
  foldersOf,
  openFolders,
  syncFolders,
} from '../folder.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import { secretNames } from '../settings.ts';

/** Deliveries of one batch at most. */
const MAX_BATCH = 500;

/** The settings as users write them. */
const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['folder'],
  additionalProperties: false,
  properties: {
    folder: folderField,
  },
} as const satisfies JsonObject;

const description: ConnectorDescription = {
  type: 'ndjson',
  title: 'NDJSON files',
  description: [
    'Appends each delivery as one line of JSON to files on the machine of the process that delivers: `<data folder>/ndjson/<workspace id>/<folder>/<YYYY-MM-DD>-<n>.ndjson`. Each workspace has its own folder.',
    'A line is `{ "id", "type": "event", "event", "rule_id", "destination_id", "attempt" }`. It is delivered once it is on the disk (fsync). The next file follows at midnight UTC or before 64 MB; names sort in the order of writing.',
    'Files only grow, so a reader may follow them. The same `id` may appear again. A line may be empty or invalid JSON after a crash or on a full disk: skip it, its delivery is written again. A line is complete once its newline is there. A reader that removes files must leave the newest one.',
    'A full disk and other errors of the file system are retried. A path with a symbolic link is refused, and the delivery is dead.',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  harmless: ['folder'],
  maxBatch: MAX_BATCH,
  hasTest: true,
  storesHere: true,
  check: folderFaults,
};

export const ndjson: ConnectorKind = { description, create: createNdjsonConnector };

/** Enough deliveries to share an fsync, few enough to be written at once. */
const BATCH_LIMITS = { events: MAX_BATCH, bytes: 8 * 1_024 * 1_024 };

function createNdjsonConnector(context: ConnectorContext): Connector {
  const { timeoutMs, clock } = context;
  const root = resolve(context.dataFolder);
  const writers = new Map<string, FolderWriter>();
  const deadlines = new Deadlines(timeoutMs);
  let closed = false;

  const writerOf = (parts: readonly string[]): FolderWriter => {
    const key = parts.join('/');
    const known = writers.get(key);
    if (known !== undefined) return known;
    const writer = new FolderWriter((lines) => appendDurably(root, parts, lines, clock()));
    writers.set(key, writer);
    return writer;
  };

  const append = async (
    parts: readonly string[],
    deliveries: readonly Delivery[],
    signal: AbortSignal,
  ): Promise<DeliveryResult> => {
    if (closed) return STOPPED;
    const lines = deliveries.map((delivery) => `${deliveryJson(delivery)}\n`).join('');
    const deadline = deadlines.begin(signal);
    try {
      deadline.throwIfAborted();
      await writerOf(parts).append(lines, deadline.signal);
      return DELIVERED;
    } catch (error) {
      const verdict = classifyFolderFailure(error);
      if (verdict === undefined) throw error;
      return verdict;
    } finally {
      deadlines.end(deadline);
    }
  };

  return {
    batchLimits: () => BATCH_LIMITS,

    async deliver(destination, deliveries, { signal }) {
      const parts = partsOf(destination);
      if (parts === undefined) return deliveries.map(() => ({ outcome: 'dead', reason: NOT_VALID }));
      const result = await append(parts, deliveries, signal);
      return deliveries.map(() => result);
    },

    async test(destination, { signal }) {
      const parts = partsOf(destination);
      if (parts === undefined) return { ok: false, reason: NOT_VALID };
      if (closed || signal.aborted) return { ok: false, reason: 'stopped' };
      try {
        const folders = await openFolders(root, parts);
        await access(folders[folders.length - 1] ?? root, constants.W_OK | constants.X_OK);
        return { ok: true };
      } catch (error) {
        const verdict = classifyFolderFailure(error);
        if (verdict === undefined) throw error;
        return testResultOf(verdict);
      }
    },

    async close() {
      closed = true;
      await Promise.all([...writers.values()].map((writer) => writer.close()));
    },
  };
}

/** The folders of a destination; undefined where its settings are invalid. */
function partsOf({ workspaceId, settings }: ConnectorDestination): readonly string[] | undefined {
  return foldersOf('ndjson', workspaceId, settings.folder);
}

/** UTF-16 units of one group at most; a longer queue is written in several groups. */
const MAX_GROUP_LENGTH = 8 * 1_024 * 1_024;

interface Append {
  readonly text: string;
  readonly settle: (error?: unknown) => void;
}

/**
 * Group commit for one folder: texts that are appended while a group is written form the next group, so that many callers
 * share an fsync. Writes never overlap, and texts stay in order.
 */
export class FolderWriter {
  readonly #write: (text: string) => Promise<void>;
  #queue: Append[] = [];
  #writing: Promise<void> | undefined;
  #closed = false;

  /** `write` resolves once its text is durable; it is never called before the last call has settled. */
  constructor(write: (text: string) => Promise<void>) {
    this.#write = write;
  }

  /**
   * Resolves once the text is durable. Rejects with the error of `write` (part of the text may have been written), with
   * `Closed`, or with the reason of `signal`: then the text is written only if its group had begun.
   */
  append(text: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(new Closed('closed'));
      const append: Append = { text, settle: (error) => (error === undefined ? resolve() : reject(error)) };
      const leave = () => {
        this.#queue = this.#queue.filter((queued) => queued !== append);
        reject(signal.reason);
      };
      signal.addEventListener('abort', leave, { once: true });
      this.#queue.push(append);
      this.#writing ??= this.#writeAll();
    });
  }

  /** Refuses further appends and resolves when all pending ones are settled. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#writing;
  }

  async #writeAll(): Promise<void> {
    while (this.#queue.length > 0) {
      const group = this.#takeGroup();
      try {
        await this.#write(group.map(({ text }) => text).join(''));
        for (const { settle } of group) settle();
      } catch (error) {
        for (const { settle } of group) settle(error);
      }
    }
    this.#writing = undefined;
  }

  #takeGroup(): readonly Append[] {
    let length = 0;
    const beyond = this.#queue.findIndex(({ text }, index) => {
      length += text.length;
      return index > 0 && length > MAX_GROUP_LENGTH;
    });
    return this.#queue.splice(0, beyond === -1 ? this.#queue.length : beyond);
  }
}

/**
 * Appends lines to the current file of the folder `parts` below `root`; they are durable when it resolves. When it rejects,
 * some may have been written. `now` is epoch ms.
 *
 * Stateless, without an open handle or a remembered size: between calls a crash, a full disk, another process or a reader
 * that removes files may have changed the folder.
 */
export async function appendDurably(
  root: string,
  parts: readonly string[],
  lines: string,
  now: number,
): Promise<void> {
  const folders = await openFolders(root, parts);
  const bytes = Buffer.from(lines);
  const { handle, fresh, torn } = await openCurrentFile(folders.at(-1) ?? root, bytes.length, now);
  try {
    // Before the first byte: the name of a file with content is taken to be durable.
    if (fresh) await syncFolders(folders);
    // A newline ends the torn line, which is not repaired: written bytes never change. If another process was in the middle
    // of its write, the newline becomes an empty line behind it.
    await writeAll(handle, torn ? Buffer.concat([Buffer.from('\n'), bytes]) : bytes);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** A single write where the system accepts it, so that lines of several processes do not mix. */
async function writeAll(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  let written = 0;
  while (written < bytes.length) {
    written += (await handle.write(bytes, written)).bytesWritten;
  }
}

/** Maximum size of a file, unless a single write is larger. */
export const MAX_FILE_BYTES = 64 * 1_024 * 1_024;

const { O_RDWR, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants;
const FLAGS = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK;

const NEWLINE = 0x0a;

interface OpenFile {
  readonly handle: FileHandle;
  /** Whether the file is empty, so that its name may not be durable. */
  readonly fresh: boolean;
  /** Whether the file ends inside a line, after a crash or on a full disk. */
  readonly torn: boolean;
}

/** Opens the file that the next `bytes` are appended to at the time `now` (epoch ms). */
async function openCurrentFile(folder: string, bytes: number, now: number): Promise<OpenFile> {
  const day = dayOf(now);
  for (let n = latestNumber(await readdir(folder), day); ; n++) {
    const handle = await openFile(join(folder, fileName(day, n)));
    try {
      const found = await handle.stat();
      if (!found.isFile()) throw new FolderRefused('a name in the folder is no file');
      const fresh = found.size === 0;
      if (fresh || found.size + bytes <= MAX_FILE_BYTES) {
        return { handle, fresh, torn: !fresh && !(await endsLine(handle, found.size)) };
      }
    } catch (error) {
      await handle.close();
      throw error;
    }
    await handle.close();
  }
}

async function openFile(path: string): Promise<FileHandle> {
  try {
    return await open(path, FLAGS, 0o600);
  } catch (error) {
    if (codeOf(error) === 'ELOOP') throw new FolderRefused('a name in the folder is a symbolic link');
    throw error;
  }
}

async function endsLine(handle: FileHandle, size: number): Promise<boolean> {
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(1), 0, 1, size - 1);
  return bytesRead === 1 && buffer[0] === NEWLINE;
}

const NAME = /^(\d{4}-\d{2}-\d{2})-(\d{6})\.ndjson$/;

/** The UTC day of a time (epoch ms), `YYYY-MM-DD`. */
function dayOf(ms: number): string {
  return iso(ms).slice(0, 10);
}

/** Names sort in the order of writing. `n` starts at 1 every day. */
function fileName(day: string, n: number): string {
  return `${day}-${String(n).padStart(6, '0')}.ndjson`;
}

/** The number of a day's last file among the names of a folder; 1 without one. */
function latestNumber(names: readonly string[], day: string): number {
  return names.reduce((latest, name) => {
    const match = NAME.exec(name);
    return match?.[1] === day ? Math.max(latest, Number(match[2])) : latest;
  }, 1);
}
