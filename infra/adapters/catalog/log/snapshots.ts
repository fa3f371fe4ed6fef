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
  /** Processes of one installation may share it. */
  readonly file: string;
  /** How often one is written, if there were new facts, ms. Default 10 minutes. */
  readonly everyMs?: number;
  /** How long the log keeps events: contracts that judged before that are left out. */
  readonly retentionMs: number;
}

/** What of a catalog becomes a snapshot. */
export interface Snapped {
  readonly state: CatalogState;
  readonly position: number;
  /** The last fact that was folded. */
  readonly last: FactText | undefined;
}

export interface FactText {
  readonly offset: number;
  readonly text: string;
}

const DEFAULT_EVERY_MS = 600_000;

/**
 * The snapshot file of a catalog: what a start reads instead of all the facts there ever were. The log stays the truth:
 * a file that is damaged, of another release, or not of this log is ignored with a warning. Nothing here ever fails its
 * caller but a log that does not answer.
 */
export class Snapshots {
  readonly #options: SnapshotOptions;
  readonly #logger: Logger;
  readonly #snap: () => Snapped | undefined;
  readonly #timer: NodeJS.Timeout;
  /** The position of what is in the file, as far as this process knows. */
  #written = -1;
  /** A file that was of no use goes, however far it says it is. */
  #isUseless = false;
  #writing: Promise<void> = Promise.resolve();

  /** `snap` is asked whenever it is time for one; undefined where there is nothing to write. */
  constructor(options: SnapshotOptions, logger: Logger, snap: () => Snapped | undefined) {
    this.#options = options;
    this.#logger = logger;
    this.#snap = snap;
    this.#timer = setInterval(() => void this.write(), options.everyMs ?? DEFAULT_EVERY_MS).unref();
  }

  /** The state to begin from; undefined to begin with the first fact. `Unavailable` when the log does not answer. */
  async load(log: Pick<EventLog, 'read' | 'end' | 'first'>): Promise<Snapshot | undefined> {
    const { file } = this.#options;
    const startedAt = performance.now();
    const found = await this.#read();
    if (found === undefined) return undefined;
    if (await coversLostBeginning(log, found)) {
      this.#logger.error(
        { file, position: found.position },
        'the catalog begins from its snapshot, as its topic has lost the facts before: mend the retention of the topic (`tributary topics`), then put the state into it with `tributary catalog rewrite`',
      );
      this.#written = found.position;
      return found;
    }
    if (!(await isOf(log, found))) {
      this.#isUseless = true;
      const isOld = found.last.offset < (await log.first(TOPIC.catalog, 0));
      const why = isOld ? 'what it ends with was dropped since' : 'it is not of this log';
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
      this.#isUseless = true;
      this.#logger.warn({ file, why: found.unusable }, 'the catalog snapshot is ignored');
    } catch (error) {
      this.#logger.warn({ file, why: messageOf(error) }, 'the catalog snapshot is ignored');
    }
    return undefined;
  }

  /** Leaves out the contracts by which no event that is kept may still be judged. */
  forgetEras(state: CatalogState): void {
    state.forgetEras(new Date(Date.now() - 2 * this.#options.retentionMs).toISOString());
  }

  /** Writes one where there is something new; a file that cannot be written is told and tried again later. */
  write(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#write());
    return this.#writing;
  }

  async #write(): Promise<void> {
    const { file } = this.#options;
    try {
      const newest = this.#isUseless ? -1 : await positionOfSnapshot(file, FOLD_VERSION);
      // From here to the rows nothing is waited for: position, last fact and rows are of one moment.
      const snapped = this.#snap();
      if (snapped?.last === undefined || snapped.position <= Math.max(this.#written, newest)) return;
      const { state, position, last } = snapped;
      this.forgetEras(state);
      const rows = rowsOf(state);
      const sha256 = digestOf(last.text);
      await writeSnapshot(
        file,
        { fold: FOLD_VERSION, position, last: { offset: last.offset, sha256 } },
        rows,
      );
      this.#written = position;
      this.#isUseless = false;
    } catch (error) {
      this.#logger.warn({ file, error: messageOf(error) }, 'the catalog snapshot was not written');
    }
  }

  /** Writes the last one. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.write();
  }
}

/** Whether the log holds the fact that the snapshot ends with, where it ends. */
async function isOf(log: Pick<EventLog, 'read' | 'end'>, { position, last }: Snapshot): Promise<boolean> {
  if ((await log.end(TOPIC.catalog, 0)) < position) return false;
  const { entries } = await log.read(TOPIC.catalog, 0, last.offset, { maxBytes: 1 });
  const [entry] = entries;
  return entry?.position.offset === last.offset && digestOf(entry.value) === last.sha256;
}

/**
 * Whether the log has lost facts that the snapshot has, and none behind it: the topic's retention deleted them, and the
 * snapshot is all there is. A log that begins with a rewrite lost them on purpose and has its rows.
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
