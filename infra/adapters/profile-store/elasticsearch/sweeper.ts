import { changeOf, forgetDeletionsBefore, messageOf, type PublishProfileChanges } from '@tributary/core';
import { bury } from './burial.ts';
import type { ChangePublisher } from './change-publisher.ts';
import {
  claimId,
  claimOf,
  foldedSource,
  liveSource,
  type ProfileDocument,
  profileDocumentOf,
  profileId,
} from './document-forms.ts';
import type { DocumentQuery } from './documents.ts';
import { AGAIN } from './restarts.ts';
import type { StoreTools } from './store-tools.ts';
import { sweepPublishers } from './sweep-publishers.ts';
import { commitChange } from './upsert.ts';
import { View } from './view.ts';
import { fencesOfFrozen } from './write-plan.ts';
import { WriteSteps } from './write-steps.ts';

/** What is younger is probably still being worked on. */
const LEAVE_ALONE_MS = 5_000;
/** Documents of one kind at a time. */
const PAGE = 100;

/**
 * Completes what operations that died left half done, and removes what is past its time. It is the only one that
 * searches; nothing that any caller sees depends on it but that changes of a process that died are published.
 */
export class Sweeper {
  readonly #tools: StoreTools;
  readonly #publisher: ChangePublisher;
  readonly #publish: PublishProfileChanges;

  constructor(tools: StoreTools, publisher: ChangePublisher, publish: PublishProfileChanges) {
    this.#tools = tools;
    this.#publisher = publisher;
    this.#publish = publish;
  }

  /** Rejects with what failed first; everything else was done. */
  async sweep(): Promise<void> {
    const { clock, retentionMs } = this.#tools;
    const before = clock() - LEAVE_ALONE_MS;
    const results = await Promise.allSettled([
      sweepPublishers(this.#tools, this.#publisher, this.#publish),
      this.#each({ state: ['deleted'], dirty: true, before, limit: PAGE }, async (_, document) => {
        if (document.state === 'deleted' && document.dirty) await bury(document, this.#tools);
      }),
      this.#each({ state: ['redirect'], before, limit: PAGE }, (ucid) => this.#settleRedirect(ucid)),
      this.#each(
        {
          state: ['deleted'],
          dirty: false,
          before: forgetDeletionsBefore(clock(), retentionMs),
          limit: PAGE,
        },
        (ucid, document) => this.#forget(ucid, document),
      ),
    ]);
    for (const result of results) if (result.status === 'rejected') throw result.reason;
  }

  async #each(
    query: DocumentQuery,
    work: (ucid: string, document: ProfileDocument) => Promise<void>,
  ): Promise<void> {
    const { documents, logger } = this.#tools;
    const ids = await documents.find(query);
    const found = await documents.read(ids);
    for (const [index, id] of ids.entries()) {
      const document = profileDocumentOf(found[index]);
      if (document === undefined) continue;
      try {
        await work(id.slice(profileId('').length), document);
      } catch (error) {
        logger.debug({ error: messageOf(error) }, 'a profile is left to the next sweep');
      }
    }
  }

  /**
   * A merge that happened leaves nothing but a name; one that did not, and whose writer is gone, never will. Of a split
   * that happened the profile is told, one that did not leaves nothing.
   */
  async #settleRedirect(ucid: string): Promise<void> {
    const view = new View(this.#tools.documents, this.#tools.hints);
    await view.load([], [ucid]);
    const document = view.document(ucid);
    if (document?.state !== 'redirect') return;
    const root = view.rootOf(ucid);
    const steps = new WriteSteps(this.#tools, view);
    if (root.kind === 'profile' && root.ucid === ucid) {
      const scope = document.content.profile;
      if (!(await steps.fence(fencesOfFrozen(document, undefined, view), scope))) return;
      const { profile, deletions, untold } = document.content;
      if (untold === true) {
        const told = { profile, text: JSON.stringify(profile), change: changeOf(profile, profile) };
        await commitChange({ document, deletions, ...told }, steps, this.#tools, this.#publisher);
      } else {
        await steps.put(ucid, liveSource(document.content, document.pending));
      }
      return;
    }
    const isCertain = await this.#tools.durable.assert([root]);
    if (isCertain !== AGAIN) await steps.put(ucid, foldedSource(document.to));
  }

  /** First the claims, then the names that led to the record, then the tombstone: a claim must never lead to nothing. */
  async #forget(ucid: string, document: ProfileDocument): Promise<void> {
    if (document.state !== 'deleted' || document.dirty) return;
    const { documents } = this.#tools;
    const { linked, unlinked = [] } = document.tombstone;
    const claims = [...document.tombstone.claims, ...unlinked];
    const names = new Set([ucid, ...linked]);
    const claimed = await documents.read(claims.map(claimId));
    await documents.write(
      claims.flatMap((claim, index) => {
        const stored = claimed[index];
        if (stored === undefined || !names.has(claimOf(stored).ucid)) return [];
        return [{ id: claimId(claim), expected: stored.version, source: 'removed' as const }];
      }),
    );
    const redirects = await documents.read(linked.map(profileId));
    await documents.write(
      linked.flatMap((name, index) => {
        const stored = redirects[index];
        return stored === undefined
          ? []
          : [{ id: profileId(name), expected: stored.version, source: 'removed' as const }];
      }),
    );
    await documents.write([{ id: profileId(ucid), expected: document.stored.version, source: 'removed' }]);
  }
}
