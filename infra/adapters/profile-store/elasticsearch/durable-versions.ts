import { LRUCache } from 'lru-cache';
import {
  type DeletedDocument,
  type LiveDocument,
  profileId,
  type RedirectDocument,
} from './document-forms.ts';
import type { Documents, DocumentVersion } from './documents.ts';
import { AGAIN, type Again } from './restarts.ts';
import type { Root } from './roots.ts';

/** Longer than any request is under way: what was written before is durable or lost. */
const SETTLED_AFTER_MS = 60_000;

type Settling = LiveDocument | RedirectDocument | DeletedDocument;

/**
 * Which documents are known to be durable as they were read: Elasticsearch shows a write a moment before it is, and a
 * crash may take it back. Before an answer rests on a document that is not known to be, it is rewritten as it is.
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

  note(ucid: string, version: DocumentVersion): void {
    this.#known.set(ucid, version);
  }

  /** What a deletion says counts when it is durable, however old it is; the last step of one is taken after that. */
  isDurable(ucid: string, document: Settling): boolean {
    if (document.state === 'deleted') return !document.dirty || this.#isKnown(ucid, document);
    const { updated_ts = 0 } = document.stored.source;
    return updated_ts < this.#clock() - SETTLED_AFTER_MS || this.#isKnown(ucid, document);
  }

  /** Resolves once all are durable as they were read; `AGAIN` when one is not what it was. */
  async settle(roots: Iterable<Root>): Promise<'settled' | Again> {
    const open = new Map<string, Settling>();
    for (const root of roots) {
      if (root.kind !== 'profile' && root.kind !== 'deleted') continue;
      if (!this.isDurable(root.ucid, root.document)) open.set(root.ucid, root.document);
    }
    return this.#rewrite(open);
  }

  async settleOne(ucid: string, document: LiveDocument | RedirectDocument): Promise<'settled' | Again> {
    if (this.isDurable(ucid, document)) return 'settled';
    return (await this.assertOne(ucid, document)) === undefined ? AGAIN : 'settled';
  }

  /** Writes what the roots are as it was read, whatever is known of them. */
  async assert(roots: Iterable<Root>): Promise<'settled' | Again> {
    const all = new Map<string, Settling>();
    for (const root of roots) {
      if (root.kind === 'profile' || root.kind === 'deleted') all.set(root.ucid, root.document);
    }
    return this.#rewrite(all);
  }

  /** The version at which the document is durable now; undefined when it is not what it was. */
  async assertOne(ucid: string, document: Settling): Promise<DocumentVersion | undefined> {
    const rewritten = await this.#rewrite(new Map([[ucid, document]]));
    return rewritten === AGAIN ? undefined : this.#known.get(ucid);
  }

  async #rewrite(documents: ReadonlyMap<string, Settling>): Promise<'settled' | Again> {
    if (documents.size === 0) return 'settled';
    const all = [...documents];
    const results = await this.#documents.write(
      all.map(([ucid, { stored }]) => ({
        id: profileId(ucid),
        expected: stored.version,
        source: stored.source,
      })),
    );
    let settled = true;
    for (const [index, [ucid]] of all.entries()) {
      const result = results[index];
      if (result === undefined || result === 'conflict') settled = false;
      else this.note(ucid, result);
    }
    return settled ? 'settled' : AGAIN;
  }

  #isKnown(ucid: string, { stored }: Settling): boolean {
    const known = this.#known.get(ucid);
    return (
      known !== undefined &&
      known.seqNo === stored.version.seqNo &&
      known.primaryTerm === stored.version.primaryTerm
    );
  }
}
