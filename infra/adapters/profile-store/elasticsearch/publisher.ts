import {
  backoffMs,
  type Logger,
  messageOf,
  type ProfileChange,
  type PublishProfileChanges,
} from '@tributary/core';

import {
  type Documents,
  type DocumentVersion,
  type Pending,
  parsePublisher,
  publisherId,
  publisherSource,
} from './documents.ts';

/** How often the progress is written, ms. After a crash the changes since then are published again. */
const CHECKPOINT_EVERY_MS = 1_000;
/** A ledger idle for longer is replaced, because a sweeper may have removed its document. */
const IDLE_MS = 60_000;
/** Limits of one append to the log: changes, and characters of their profiles. A longer profile is appended alone. */
const CHANGES_A_CALL = 500;
const CHARACTERS_A_CALL = 1024 * 1024;
/**
 * After large profiles, the publisher pauses in proportion to them, so that writes to the same profile meanwhile are published
 * as one: the log does not take 200 KB for each small write.
 */
const LARGE_CHARACTERS = 32 * 1024;
const LARGE_CHARACTERS_A_MS = 1024;
const LONGEST_PAUSE_MS = 1_000;
/** Limits of the queue while the log does not answer. Beyond them the queued changes are left to the sweeper. */
const MAX_QUEUED = 20_000;
const MAX_QUEUED_CHARACTERS = 64 * 1024 * 1024;
const BACKOFF = { firstMs: 100, capMs: 5_000 };
/** How long `close` waits for the last changes to be published. */
const CLOSE_WITHIN_MS = 2_000;

/** A change that is about to be committed. */
interface OpenChange {
  readonly ledger: ChangeLedger;
  /** To be written into the document. */
  readonly pending: Pending;
}

interface QueuedChange {
  readonly ledger: ChangeLedger;
  readonly n: number;
  readonly change: ProfileChange;
  readonly characters: number;
}

interface ChangePublisherOptions {
  readonly documents: Documents;
  readonly publish: PublishProfileChanges;
  readonly clock: () => number;
  readonly pause: (ms: number) => Promise<void>;
  readonly newId: () => string;
  readonly logger: Logger;
}

/**
 * Publishes the changes that this process commits, in the order of their commits; of several writes to one profile, the last. No
 * profile is written again to mark its
 * change as published: a profile names the publisher and the number of its change, and one small document of the publisher
 * holds the number up to which all changes are published. The sweeper compares the two after a crash.
 */
export class ChangePublisher {
  readonly #options: ChangePublisherOptions;
  #current: { readonly ledger: ChangeLedger; readonly ready: Promise<void> } | undefined;
  readonly #checkpoints = new Map<
    ChangeLedger,
    { version: DocumentVersion; published: number; at: number }
  >();
  #queue: QueuedChange[] = [];
  #queuedCharacters = 0;
  #publishing: Promise<void> | undefined;
  #checkpointing: Promise<void> | undefined;
  #closed = false;

  constructor(options: ChangePublisherOptions) {
    this.#options = options;
  }

  /** Numbers a change that is about to be committed. Call exactly one of the next three methods afterwards. */
  async begin(): Promise<OpenChange> {
    if (this.#current === undefined || this.#isUsedUp(this.#current.ledger)) {
      const ledger = new ChangeLedger(this.#options.newId());
      this.#current = { ledger, ready: this.#create(ledger) };
    }
    const { ledger, ready } = this.#current;
    try {
      await ready;
    } catch (error) {
      if (this.#current?.ledger === ledger) this.#current = undefined;
      throw error;
    }
    return { ledger, pending: ledger.begin() };
  }

  /** `characters`: length of the JSON of the change's profile, if it has one. */
  committed({ ledger, pending }: OpenChange, change: ProfileChange, characters = 0): void {
    this.#queue.push({ ledger, n: pending.n, change, characters });
    this.#queuedCharacters += characters;
    if (this.#queue.length > MAX_QUEUED || this.#queuedCharacters > MAX_QUEUED_CHARACTERS)
      this.#leaveToSweeper();
    this.#publishing ??= this.#publish().finally(() => {
      this.#publishing = undefined;
    });
    this.#checkpointing ??= this.#checkpointAll().finally(() => {
      this.#checkpointing = undefined;
    });
  }

  notCommitted({ ledger, pending }: OpenChange): void {
    ledger.end(pending.n);
  }

  /** The outcome of the commit is unknown. The change may still be committed, so it is left to the sweeper. */
  unknown({ ledger }: OpenChange): void {
    ledger.abandon();
  }

  /** Whether the change that a document carries is known to be published. */
  async isPublished({ by, n }: Pending): Promise<boolean> {
    const ledger = this.#ledgerOf({ by });
    if (ledger !== undefined) return !ledger.isOpen(n);
    const [stored] = await this.#options.documents.read([publisherId(by)]);
    return stored !== undefined && parsePublisher(stored).published >= n;
  }

  /** Whether the publisher is one of this process. */
  isOwn(by: string): boolean {
    return this.#ledgerOf({ by }) !== undefined;
  }

  /**
   * Publishes the queue, for two seconds at most, and writes the progress. A publisher that leaves nothing may be removed
   * at once. One that leaves changes is kept for a while, as searches may not find the changes yet.
   */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.race([this.#publishing, this.#options.pause(CLOSE_WITHIN_MS)]);
    for (const ledger of this.#checkpoints.keys())
      await this.#checkpointOne(ledger, ledger.hasOpen ? this.#options.clock() : 0);
  }

  #isUsedUp(ledger: ChangeLedger): boolean {
    const checkpoint = this.#checkpoints.get(ledger);
    if (ledger.isAbandoned) return true;
    return checkpoint !== undefined && !ledger.hasOpen && this.#options.clock() - checkpoint.at > IDLE_MS;
  }

  #ledgerOf({ by }: { readonly by: string }): ChangeLedger | undefined {
    if (this.#current?.ledger.id === by) return this.#current.ledger;
    for (const ledger of this.#checkpoints.keys()) if (ledger.id === by) return ledger;
    return undefined;
  }

  async #create(ledger: ChangeLedger): Promise<void> {
    const at = this.#options.clock();
    const [version] = await this.#options.documents.write([
      { id: publisherId(ledger.id), expected: 'absent', source: publisherSource({ published: 0 }, at) },
    ]);
    if (version === undefined || version === 'conflict')
      throw new TypeError('the id of a new publisher exists already');
    this.#checkpoints.set(ledger, { version, published: 0, at });
  }

  async #publish(): Promise<void> {
    let failures = 0;
    let large = 0;
    for (;;) {
      if (this.#queue.length === 0) {
        if (large === 0 || this.#closed) return;
        await this.#options.pause(Math.min(LONGEST_PAUSE_MS, large / LARGE_CHARACTERS_A_MS));
        large = 0;
        continue;
      }
      const { batch, superseded } = this.#nextBatch();
      const published = batch.filter((one) => !superseded.has(one));
      try {
        if (published.length > 0) await this.#options.publish(published.map(({ change }) => change));
      } catch (error) {
        if (failures === 0)
          this.#options.logger.warn(
            { error: messageOf(error) },
            'profile changes could not be published; retrying',
          );
        if (this.#closed) return;
        await this.#options.pause(backoffMs(failures++, BACKOFF));
        continue;
      }
      failures = 0;
      for (const { characters } of published) if (characters > LARGE_CHARACTERS) large += characters;
      // Meanwhile changes may have been added to the queue, or the whole queue left to the sweeper.
      const done = new Set(batch);
      this.#queue = this.#queue.filter((one) => !done.has(one));
      this.#queuedCharacters = this.#queue.reduce((sum, { characters }) => sum + characters, 0);
      for (const { ledger, n } of batch) ledger.end(n);
    }
  }

  /** The first changes of the queue, and the writes of it that a later change of the same profile covers. */
  #nextBatch(): { readonly batch: readonly QueuedChange[]; readonly superseded: ReadonlySet<QueuedChange> } {
    const superseded = new Set<QueuedChange>();
    const later = new Set<string>();
    for (const one of this.#queue.toReversed()) {
      const { kind, ucid } = one.change;
      if (kind === 'written' && later.has(ucid)) superseded.add(one);
      later.add(ucid);
    }
    let characters = 0;
    const end = this.#queue.findIndex((one, index) => {
      if (!superseded.has(one)) characters += one.characters;
      return index > 0 && (index >= CHANGES_A_CALL || characters > CHARACTERS_A_CALL);
    });
    return { batch: end < 0 ? [...this.#queue] : this.#queue.slice(0, end), superseded };
  }

  /** The queued changes stay open in their ledgers, which take no further changes. */
  #leaveToSweeper(): void {
    this.#options.logger.warn(
      { changes: this.#queue.length },
      'too many profile changes are queued; they are left to the sweeper',
    );
    for (const { ledger } of this.#queue) ledger.abandon();
    this.#queue = [];
    this.#queuedCharacters = 0;
  }

  async #checkpointAll(): Promise<void> {
    while (!this.#closed && [...this.#checkpoints.keys()].some((ledger) => this.#needsCheckpoint(ledger))) {
      await this.#options.pause(CHECKPOINT_EVERY_MS);
      if (this.#closed) return;
      for (const ledger of this.#checkpoints.keys()) {
        if (this.#needsCheckpoint(ledger)) await this.#checkpointOne(ledger, this.#options.clock());
        if (ledger.isAbandoned && !this.#isQueued(ledger)) this.#checkpoints.delete(ledger);
      }
    }
  }

  /** Also without progress: the time of the checkpoint shows that the publisher is alive. */
  #needsCheckpoint(ledger: ChangeLedger): boolean {
    const published = this.#checkpoints.get(ledger)?.published ?? 0;
    return ledger.published > published || (ledger.hasOpen && !ledger.isAbandoned);
  }

  #isQueued(ledger: ChangeLedger): boolean {
    return this.#queue.some((one) => one.ledger === ledger);
  }

  async #checkpointOne(ledger: ChangeLedger, at: number): Promise<void> {
    const checkpoint = this.#checkpoints.get(ledger);
    if (checkpoint === undefined) return;
    const { published } = ledger;
    try {
      const [version] = await this.#options.documents.write([
        {
          id: publisherId(ledger.id),
          expected: checkpoint.version,
          source: publisherSource({ published }, at),
        },
      ]);
      // A sweeper took this process for dead and removed the document, or a request that timed out was applied after all.
      if (version === undefined || version === 'conflict') ledger.abandon();
      else this.#checkpoints.set(ledger, { version, published, at: this.#options.clock() });
    } catch (error) {
      this.#options.logger.debug(
        { error: messageOf(error) },
        'the checkpoint of the published changes could not be written',
      );
      ledger.abandon();
    }
  }
}

/** The numbered changes of one publisher, and which of them are published. */
class ChangeLedger {
  readonly id: string;
  #next = 1;
  readonly #open = new Set<number>();
  #abandoned = false;

  constructor(id: string) {
    this.id = id;
  }

  /** Numbers a change that is about to be committed. */
  begin(): Pending {
    const n = this.#next++;
    this.#open.add(n);
    return { by: this.id, n };
  }

  /** The change was published, or never committed. */
  end(n: number): void {
    this.#open.delete(n);
  }

  /** Takes no further changes: the outcome of one is unknown, or its changes are left to the sweeper. */
  abandon(): void {
    this.#abandoned = true;
  }

  get isAbandoned(): boolean {
    return this.#abandoned;
  }

  get hasOpen(): boolean {
    return this.#open.size > 0;
  }

  isOpen(n: number): boolean {
    return this.#open.has(n);
  }

  /** The number up to which everything is published. */
  get published(): number {
    // A set iterates in the order of insertion, so the first number is the lowest.
    for (const lowest of this.#open) return lowest - 1;
    return this.#next - 1;
  }
}
