import { messageOf } from '@tributary/core';
import {
  claimHash,
  claimId,
  claimOf,
  claimSource,
  deletedSource,
  foldedSource,
  profileId,
  redirectSource,
} from './document-forms.ts';
import type { DocumentSource, DocumentVersion, DocumentWrite } from './documents.ts';
import type { StoreTools } from './store-tools.ts';
import type { View } from './view.ts';
import type { Fence, Joining, WritePlan } from './write-plan.ts';

/**
 * The steps of one operation, each a compare-and-set of what its view shows or of what an earlier step wrote. Each is
 * acknowledged before the next one is taken.
 */
export class WriteSteps {
  readonly #tools: StoreTools;
  readonly #view: View;
  readonly #written = new Map<string, DocumentVersion>();

  constructor(tools: StoreTools, view: View) {
    this.#tools = tools;
    this.#view = view;
  }

  /** False when somebody else wrote one of the documents: then the operation begins anew. */
  async fence(
    fences: readonly Fence[],
    scope: { readonly org: number; readonly region: string },
  ): Promise<boolean> {
    return this.#all(
      fences.map((fence): ProfileStep => {
        const stored = this.#view.document(fence.ucid)?.stored;
        if (fence.kind === 'rewrite' && stored !== undefined)
          return { ucid: fence.ucid, source: stored.source };
        const { ucid } = fence;
        const claims = fence.kind === 'bar' ? [fence.claim] : [];
        const tombstone = {
          org: scope.org,
          region: scope.region,
          ucid,
          version: 0,
          deletedAt: 0,
          linked: [],
          claims,
        };
        return { ucid, source: deletedSource(tombstone, true, this.#tools.clock(), undefined) };
      }),
    );
  }

  /** Freezes those that join, and makes the claims lead to where they shall. */
  async claimAndFreeze({
    claims,
    joining,
    ucid: to,
  }: Extract<WritePlan, { kind: 'write' }>): Promise<boolean> {
    const freezes = joining.map(({ ucid, document: { content, pending } }) => ({
      ucid,
      source: redirectSource(content, pending, to),
    }));
    const claimWrites = claims.map(({ claim, before, ...leads }) => ({
      id: claimId(claim),
      expected: before?.stored.version ?? ('absent' as const),
      source: claimSource(leads),
    }));
    return this.#all(freezes, claimWrites);
  }

  /** Writes a profile; undefined when somebody else wrote it. */
  async put(ucid: string, source: DocumentSource): Promise<DocumentVersion | undefined> {
    return (await this.#all([{ ucid, source }])) ? this.#written.get(ucid) : undefined;
  }

  /**
   * After a merge: nothing but names stays of what became part of another profile, and claims lead to that one at once.
   * No caller waits for it; an operation that finds it undone can do without, and the sweeper does it. Claims are moved
   * only as they were read before the profiles were stripped: a split writes the profile first and then the claims, so
   * none is taken away from it.
   */
  async tidy(joining: readonly Joining[], to: string): Promise<void> {
    const { documents, hints } = this.#tools;
    const claims = joining.flatMap(({ document: { content } }) =>
      content.profile.identities.map((identity) => claimHash(content.profile, identity)),
    );
    const from = new Set(joining.map(({ ucid }) => ucid));
    try {
      const found = await documents.read(claims.map(claimId));
      if (!(await this.#all(joining.map(({ ucid }) => ({ ucid, source: foldedSource(to) }))))) return;
      const moved = claims.flatMap((claim, index): readonly DocumentWrite[] => {
        hints.set(claim, to);
        const stored = found[index];
        const before = stored === undefined ? undefined : claimOf(stored);
        if (before === undefined || !from.has(before.ucid)) return [];
        const source = claimSource({ ...before, ucid: to });
        return [{ id: claimId(claim), expected: before.stored.version, source }];
      });
      await documents.write(moved);
    } catch (error) {
      this.#tools.logger.debug({ error: messageOf(error) }, 'a merge is left to the sweeper to tidy');
    }
  }

  async #all(steps: readonly ProfileStep[], others: readonly DocumentWrite[] = []): Promise<boolean> {
    if (steps.length + others.length === 0) return true;
    const writes = steps.map(({ ucid, source }) => ({
      id: profileId(ucid),
      expected: this.#written.get(ucid) ?? this.#view.document(ucid)?.stored.version ?? ('absent' as const),
      source,
    }));
    const results = await this.#tools.documents.write([...writes, ...others]);
    for (const [index, { ucid }] of steps.entries()) {
      const result = results[index];
      if (result !== undefined && result !== 'conflict') this.#written.set(ucid, result);
    }
    return !results.includes('conflict');
  }
}

interface ProfileStep {
  readonly ucid: string;
  readonly source: DocumentSource;
}
