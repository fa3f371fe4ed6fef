import { backoffMs, type Logger, Unavailable } from '@tributary/core';
import { LRUCache } from 'lru-cache';
import type { ChangePublisher } from '../change-publisher.ts';
import {
  type DeletedDocument,
  type Documents,
  type DocumentVersion,
  type LiveDocument,
  profileId,
  type RedirectDocument,
} from '../documents.ts';
import type { CachedLocations } from './cached-locations.ts';
import type { Root } from './view.ts';

/** The dependencies shared by every operation of the store. */
export interface OperationContext {
  readonly documents: Documents;
  readonly publisher: ChangePublisher;
  readonly locations: CachedLocations;
  readonly durable: DurableVersions;
  readonly clock: () => number;
  readonly pause: (ms: number) => Promise<void>;
  /** From 0 to 1. */
  readonly random: () => number;
  /** A fresh UUIDv7, increasing within this process. */
  readonly newUcid: () => string;
  readonly logger: Logger;
  /** How long deletions are remembered, ms. */
  readonly retentionMs: number;
  /** Notes the characters of JSON that an operation of the organization has read and rewritten. */
  readonly charge: (org: number, read: number, written?: number) => void;
  /** Registers work that only `close` waits for. It must not reject. */
  readonly background: (work: Promise<void>) => void;
}

/**
 * Outcome of an attempt that lost a race: a document that it relied on was written by another operation. Every step that
 * it took may be repeated.
 */
export const CONFLICT = Symbol('conflict');
export type Conflict = typeof CONFLICT;

/** How long an operation is retried before it fails with `Unavailable`. */
const RETRY_FOR_MS = 15_000;
/** Upper bounds of the random pauses between attempts. */
const BACKOFF = { firstMs: 2, capMs: 200 };

/** Repeats the attempt until it does not conflict, with growing random pauses. `Unavailable` after 15 s of conflicts. */
export async function retryOnConflict<T>(
  { clock, pause, random }: Pick<OperationContext, 'clock' | 'pause' | 'random'>,
  attempt: () => Promise<T | Conflict>,
): Promise<T> {
  const startedAt = clock();
  for (let attempts = 0; ; attempts++) {
    const outcome = await attempt();
    if (outcome !== CONFLICT) return outcome as T;
    if (clock() - startedAt > RETRY_FOR_MS)
      throw new Unavailable('the profile is written by too many others at once');
    await pause(random() * backoffMs(attempts, BACKOFF));
  }
}

/** Longer than any request is under way: a write of before is durable or lost. */
const DURABLE_AFTER_MS = 60_000;

type Rewritable = LiveDocument | RedirectDocument | DeletedDocument;

/**
 * Versions of documents that are known to be durable. Elasticsearch shows a write to realtime reads before it is durable,
 * and a crash of a node may take it back. So before an answer or a write rests on a version that is not known to be
 * durable, the document is rewritten unchanged: an acknowledged write is durable.
 */
export class DurableVersions {
  readonly #documents: Documents;
  readonly #clock: () => number;
  readonly #known: LRUCache<string, DocumentVersion>;

  constructor(documents: Documents, clock: () => number, limit: number) {
    this.#documents = documents;
    this.#clock = clock;
    this.#known = new LRUCache({ max: limit });
  }

  /** Records a version that was acknowledged. */
  note(ucid: string, version: DocumentVersion): void {
    this.#known.set(ucid, version);
  }

  /**
   * A clean tombstone is durable: it is marked clean only after a rewrite was acknowledged. A dirty one is never taken for
   * durable by its age.
   */
  isDurable(ucid: string, document: Rewritable): boolean {
    if (document.state === 'deleted') return !document.dirty || this.#isKnown(ucid, document);
    const { updated_ts = 0 } = document.stored.source;
    return updated_ts < this.#clock() - DURABLE_AFTER_MS || this.#isKnown(ucid, document);
  }

  /** Resolves once all roots are durable as they were read; `CONFLICT` when one has changed since. */
  async ensureDurable(roots: Iterable<Root>): Promise<'durable' | Conflict> {
    const unknown = new Map<string, Rewritable>();
    for (const root of roots) {
      if (root.kind !== 'profile' && root.kind !== 'deleted') continue;
      if (!this.isDurable(root.ucid, root.document)) unknown.set(root.ucid, root.document);
    }
    return this.#rewriteAll(unknown);
  }

  async ensureOneDurable(
    ucid: string,
    document: LiveDocument | RedirectDocument,
  ): Promise<'durable' | Conflict> {
    if (this.isDurable(ucid, document)) return 'durable';
    return (await this.rewriteOne(ucid, document)) === undefined ? CONFLICT : 'durable';
  }

  /** Rewrites the roots unchanged, also those that are known to be durable. */
  async rewrite(roots: Iterable<Root>): Promise<'durable' | Conflict> {
    const all = new Map<string, Rewritable>();
    for (const root of roots) {
      if (root.kind === 'profile' || root.kind === 'deleted') all.set(root.ucid, root.document);
    }
    return this.#rewriteAll(all);
  }

  /** The version of the rewritten document, which is durable; undefined when the document has changed since it was read. */
  async rewriteOne(ucid: string, document: Rewritable): Promise<DocumentVersion | undefined> {
    const rewritten = await this.#rewriteAll(new Map([[ucid, document]]));
    return rewritten === CONFLICT ? undefined : this.#known.get(ucid);
  }

  async #rewriteAll(documents: ReadonlyMap<string, Rewritable>): Promise<'durable' | Conflict> {
    if (documents.size === 0) return 'durable';
    const all = [...documents];
    const results = await this.#documents.write(
      all.map(([ucid, { stored }]) => ({
        id: profileId(ucid),
        expected: stored.version,
        source: stored.source,
      })),
    );
    let conflicts = false;
    for (const [index, [ucid]] of all.entries()) {
      const result = results[index];
      if (result === undefined || result === 'conflict') conflicts = true;
      else this.note(ucid, result);
    }
    return conflicts ? CONFLICT : 'durable';
  }

  #isKnown(ucid: string, { stored }: Rewritable): boolean {
    const known = this.#known.get(ucid);
    return (
      known !== undefined &&
      known.seqNo === stored.version.seqNo &&
      known.primaryTerm === stored.version.primaryTerm
    );
  }
}
