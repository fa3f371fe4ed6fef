import { createHash } from 'node:crypto';
import {
  type CatalogEntry,
  type CatalogState,
  type EventLog,
  FOLD_VERSION,
  isRewriteRecord,
  type Logger,
  messageOf,
  rowsOf,
  TOPIC,
} from '@tributary/core';
import { positionOfSnapshot, readSnapshot, type Snapshot, writeSnapshot } from './snapshot-file.ts';

export interface SnapshotOptions {
  /** May be shared by the processes of one installation. */
  readonly file: string;
  /** Interval at which the file is written if there are new facts, ms. Default 10 minutes. */
  readonly everyMs?: number;
  /** How long the log keeps events: contract versions that were replaced before that are left out. */
  readonly retentionMs: number;
}

/** The content of a snapshot. */
export interface SnapshotContent {
  readonly state: CatalogState;
  readonly position: number;
  /** The last folded fact. */
  readonly last: FactText | undefined;
}

export interface FactText {
  readonly offset: number;
  readonly text: string;
}

const DEFAULT_EVERY_MS = 600_000;

/**
 * The snapshot file of a catalog, which a start reads instead of all facts. The log remains the source of truth: a file that
 * is damaged, of another release, or of another log is ignored with a warning. Errors of the file never fail the caller.
 */
export class Snapshots {
  readonly #options: SnapshotOptions;
  readonly #logger: Logger;
  readonly #content: () => SnapshotContent | undefined;
  readonly #timer: NodeJS.Timeout;
  /** The position of the file, as far as this process knows. */
  #written = -1;
  /** The existing file is unusable, and is replaced whatever its position is. */
  #isUnusable = false;
  #writing: Promise<void> = Promise.resolve();

  /** `content` is called for each snapshot; undefined when there is nothing to write. */
  constructor(options: SnapshotOptions, logger: Logger, content: () => SnapshotContent | undefined) {
    this.#options = options;
    this.#logger = logger;
    this.#content = content;
    this.#timer = setInterval(() => void this.write(), options.everyMs ?? DEFAULT_EVERY_MS).unref();
  }

  /** The snapshot to begin with; undefined to begin with the first fact. `Unavailable` when the log does not answer. */
  async load(log: Pick<EventLog, 'read' | 'end' | 'first'>): Promise<Snapshot | undefined> {
    const { file } = this.#options;
    const startedAt = performance.now();
    const found = await this.#read();
    if (found === undefined) return undefined;
    if (await coversLostBeginning(log, found)) {
      this.#logger.error(
        { file, position: found.position },
        'the catalog begins from its snapshot, as its topic has lost the earlier facts: correct the retention of the topic (`tributary topics`), then write the state into it with `tributary catalog rewrite`',
      );
      this.#written = found.position;
      return found;
    }
    if (!(await isOf(log, found))) {
      this.#isUnusable = true;
      const wasDropped = found.last.offset < (await log.first(TOPIC.catalog, 0));
      const why = wasDropped ? 'its last fact was dropped meanwhile' : 'it is not of this log';
      this.#logger.warn({ file }, `the catalog snapshot is ignored: ${why}`);
      return undefined;
    }
    this.#written = found.position;
    const ms = Math.round(performance.now() - startedAt);
    this.#logger.info({ file, position: found.position, ms }, 'the catalog begins from its snapshot');
    return found;
  }

  async #read(): Promise<Snapshot | undefined> {
    const { file } = this.#options;
    try {
      const found = await readSnapshot(file, FOLD_VERSION);
      if (found === undefined || !('unusable' in found)) return found;
      this.#isUnusable = true;
      this.#logger.warn({ file, why: found.unusable }, 'the catalog snapshot is ignored');
    } catch (error) {
      this.#logger.warn({ file, why: messageOf(error) }, 'the catalog snapshot is ignored');
    }
    return undefined;
  }

  /** Removes contract versions that apply to no kept event any more. */
  forgetEras(state: CatalogState): void {
    state.forgetEras(new Date(Date.now() - 2 * this.#options.retentionMs).toISOString());
  }

  /** Writes the file if there are new facts. A failure is logged, and the next interval tries again. */
  write(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#write());
    return this.#writing;
  }

  async #write(): Promise<void> {
    const { file } = this.#options;
    try {
      const newest = this.#isUnusable ? -1 : await positionOfSnapshot(file, FOLD_VERSION);
      // Synchronous up to the rows, so that position, last fact and rows are consistent.
      const content = this.#content();
      if (content?.last === undefined || content.position <= Math.max(this.#written, newest)) return;
      const { state, position, last } = content;
      this.forgetEras(state);
      const rows = rowsOf(state);
      const sha256 = digestOf(last.text);
      await writeSnapshot(
        file,
        { fold: FOLD_VERSION, position, last: { offset: last.offset, sha256 } },
        rows,
      );
      this.#written = position;
      this.#isUnusable = false;
    } catch (error) {
      this.#logger.warn(
        { file, error: messageOf(error) },
        'the catalog snapshot was not written; the next interval tries again',
      );
    }
  }

  /** Writes the last snapshot. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.write();
  }
}

/** Whether the log holds the last fact of the snapshot at its offset. */
async function isOf(log: Pick<EventLog, 'read' | 'end'>, { position, last }: Snapshot): Promise<boolean> {
  if ((await log.end(TOPIC.catalog, 0)) < position) return false;
  const { entries } = await log.read(TOPIC.catalog, 0, last.offset, { maxBytes: 1 });
  const [entry] = entries;
  return entry?.position.offset === last.offset && digestOf(entry.value) === last.sha256;
}

/**
 * Whether the log has lost facts that the snapshot contains, and none after it: the topic's retention deleted them, and only
 * the snapshot has them. A log that begins with a rewrite dropped them on purpose, and has the rows instead.
 */
async function coversLostBeginning(
  log: Pick<EventLog, 'read' | 'end' | 'first'>,
  { position, last }: Snapshot,
): Promise<boolean> {
  const first = await log.first(TOPIC.catalog, 0);
  if (last.offset >= first || position < first || (await log.end(TOPIC.catalog, 0)) < position) return false;
  const { entries } = await log.read(TOPIC.catalog, 0, first, { maxBytes: 1 });
  const [entry] = entries;
  return entry === undefined || !isRewriteRecord(JSON.parse(entry.value) as CatalogEntry);
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
