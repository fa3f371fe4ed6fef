import {
  backoffMs,
  type Logger,
  messageOf,
  type ProfileChange,
  type PublishProfileChanges,
} from '@tributary/core';
import { ChangeLedger } from './change-ledger.ts';
import type { Pending } from './document-forms.ts';
import type { Documents, DocumentVersion } from './documents.ts';
import { parsePublisher, publisherId, publisherSource } from './publisher-form.ts';

/** How often what was published is noted, ms: after a crash so much is published a second time. */
const NOTE_EVERY_MS = 1_000;
/** A ledger that was idle for so long is not used any more: sweepers may have removed it. */
const IDLE_MS = 60_000;
/** Changes of one call to the log, and the characters of their profiles; one that is longer goes alone. */
const CHANGES_A_CALL = 500;
const CHARACTERS_A_CALL = 1024 * 1024;
/** Of changes that wait while the log does not answer; those beyond are left to the sweeper. */
const MAX_WAITING = 20_000;
const MAX_WAITING_CHARACTERS = 64 * 1024 * 1024;
const BACKOFF = { firstMs: 100, capMs: 5_000 };
/** How long the log may take for the last changes. */
const CLOSING_MS = 2_000;

/** A change that is about to be committed. */
export interface OpenChange {
  readonly ledger: ChangeLedger;
  /** What the document is to carry. */
  readonly pending: Pending;
}

interface Waiting {
  readonly ledger: ChangeLedger;
  readonly n: number;
  readonly change: ProfileChange;
  readonly characters: number;
}

export interface ChangePublisherOptions {
  readonly documents: Documents;
  readonly publish: PublishProfileChanges;
  readonly clock: () => number;
  readonly pause: (ms: number) => Promise<void>;
  readonly newId: () => string;
  readonly logger: Logger;
}

/**
 * Publishes what this process commits, in the order in which it was committed. That a change is published is not written
 * into its profile: the profile names the publisher and the number of the change, and one small document of the
 * publisher says up to which number all are. What a publisher that died left is found by comparing the two.
 */
export class ChangePublisher {
  readonly #options: ChangePublisherOptions;
  #current: { readonly ledger: ChangeLedger; readonly ready: Promise<void> } | undefined;
  readonly #noted = new Map<ChangeLedger, { version: DocumentVersion; published: number; at: number }>();
  #waiting: Waiting[] = [];
  #waitingCharacters = 0;
  #publishing: Promise<void> | undefined;
  #noting: Promise<void> | undefined;
  #closed = false;

  constructor(options: ChangePublisherOptions) {
    this.#options = options;
  }

  /** Numbers a change that is about to be committed. Exactly one of the three calls below has to follow. */
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

  /** `characters`: of the JSON of the profile that it carries, if it does. */
  committed({ ledger, pending }: OpenChange, change: ProfileChange, characters = 0): void {
    this.#waiting.push({ ledger, n: pending.n, change, characters });
    this.#waitingCharacters += characters;
    if (this.#waiting.length > MAX_WAITING || this.#waitingCharacters > MAX_WAITING_CHARACTERS)
      this.#leaveToSweeper();
    this.#publishing ??= this.#publish().finally(() => {
      this.#publishing = undefined;
    });
    this.#noting ??= this.#note().finally(() => {
      this.#noting = undefined;
    });
  }

  notCommitted({ ledger, pending }: OpenChange): void {
    ledger.end(pending.n);
  }

  /** It may be committed later, unseen: whoever finds it then has to publish it. */
  unknown({ ledger }: OpenChange): void {
    ledger.abandon();
  }

  /** Whether a change that a document carries is known to be published. */
  async isPublished({ by, n }: Pending): Promise<boolean> {
    const ledger = this.#ledgerOf({ by });
    if (ledger !== undefined) return !ledger.isOpen(n);
    const [stored] = await this.#options.documents.read([publisherId(by)]);
    return stored !== undefined && parsePublisher(stored).published >= n;
  }

  /** Whether a publisher is one of this process. */
  isOwn(by: string): boolean {
    return this.#ledgerOf({ by }) !== undefined;
  }

  /**
   * Publishes what waits, for as long as the log takes it soon, and says what it leaves. A publisher that leaves nothing
   * may be forgotten at once; of one that leaves something, a search may not find that yet.
   */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.race([this.#publishing, this.#options.pause(CLOSING_MS)]);
    for (const ledger of this.#noted.keys())
      await this.#noteOne(ledger, ledger.hasOpen ? this.#options.clock() : 0);
  }

  #isUsedUp(ledger: ChangeLedger): boolean {
    const noted = this.#noted.get(ledger);
    if (ledger.isAbandoned) return true;
    return noted !== undefined && !ledger.hasOpen && this.#options.clock() - noted.at > IDLE_MS;
  }

  #ledgerOf({ by }: { readonly by: string }): ChangeLedger | undefined {
    if (this.#current?.ledger.id === by) return this.#current.ledger;
    for (const ledger of this.#noted.keys()) if (ledger.id === by) return ledger;
    return undefined;
  }

  async #create(ledger: ChangeLedger): Promise<void> {
    const at = this.#options.clock();
    const [version] = await this.#options.documents.write([
      { id: publisherId(ledger.id), expected: 'absent', source: publisherSource({ published: 0 }, at) },
    ]);
    if (version === undefined || version === 'conflict')
      throw new TypeError('the id of a publisher was taken');
    this.#noted.set(ledger, { version, published: 0, at });
  }

  async #publish(): Promise<void> {
    let failures = 0;
    while (this.#waiting.length > 0) {
      const batch = this.#nextBatch();
      try {
        await this.#options.publish(batch.map(({ change }) => change));
      } catch (error) {
        if (failures === 0)
          this.#options.logger.warn({ error: messageOf(error) }, 'changes of profiles wait to be published');
        if (this.#closed) return;
        await this.#options.pause(backoffMs(failures++, BACKOFF));
        continue;
      }
      failures = 0;
      // While it was published more may have come, or what waited was left to the sweeper.
      const published = new Set(batch);
      this.#waiting = this.#waiting.filter((one) => !published.has(one));
      this.#waitingCharacters = this.#waiting.reduce((sum, { characters }) => sum + characters, 0);
      for (const { ledger, n } of batch) ledger.end(n);
    }
  }

  #nextBatch(): readonly Waiting[] {
    let characters = 0;
    const end = this.#waiting.findIndex((one, index) => {
      characters += one.characters;
      return index > 0 && (index >= CHANGES_A_CALL || characters > CHARACTERS_A_CALL);
    });
    return end < 0 ? [...this.#waiting] : this.#waiting.slice(0, end);
  }

  /** They stay open in their ledgers, which nobody uses from now on. */
  #leaveToSweeper(): void {
    this.#options.logger.warn(
      { changes: this.#waiting.length },
      'too many changes of profiles wait to be published; they are left to the sweeper',
    );
    for (const { ledger } of this.#waiting) ledger.abandon();
    this.#waiting = [];
    this.#waitingCharacters = 0;
  }

  async #note(): Promise<void> {
    while (!this.#closed && [...this.#noted.keys()].some((ledger) => this.#hasToNote(ledger))) {
      await this.#options.pause(NOTE_EVERY_MS);
      if (this.#closed) return;
      for (const ledger of this.#noted.keys()) {
        if (this.#hasToNote(ledger)) await this.#noteOne(ledger, this.#options.clock());
        if (ledger.isAbandoned && !this.#isAwaited(ledger)) this.#noted.delete(ledger);
      }
    }
  }

  /** Also without progress: that the publisher is alive and works on it. */
  #hasToNote(ledger: ChangeLedger): boolean {
    const published = this.#noted.get(ledger)?.published ?? 0;
    return ledger.published > published || (ledger.hasOpen && !ledger.isAbandoned);
  }

  #isAwaited(ledger: ChangeLedger): boolean {
    return this.#waiting.some((one) => one.ledger === ledger);
  }

  async #noteOne(ledger: ChangeLedger, at: number): Promise<void> {
    const noted = this.#noted.get(ledger);
    if (noted === undefined) return;
    const { published } = ledger;
    try {
      const [version] = await this.#options.documents.write([
        { id: publisherId(ledger.id), expected: noted.version, source: publisherSource({ published }, at) },
      ]);
      // Removed by a sweeper that took this process for dead, or written by a request that was given up.
      if (version === undefined || version === 'conflict') ledger.abandon();
      else this.#noted.set(ledger, { version, published, at: this.#options.clock() });
    } catch (error) {
      this.#options.logger.debug({ error: messageOf(error) }, 'what is published could not be noted');
      ledger.abandon();
    }
  }
}
