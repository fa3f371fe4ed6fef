import {
  changeOf,
  forgetDeletionsBefore,
  messageOf,
  type ProfileChange,
  type PublishProfileChanges,
} from '@tributary/core';
import { type OperationContext, View } from './context.ts';
import {
  type DocumentQuery,
  type DocumentSource,
  deletedSource,
  identityClaimId,
  identityClaimOf,
  liveSource,
  mergedSource,
  type ProfileDocument,
  parsePublisher,
  profileDocumentOf,
  profileId,
  publisherId,
  redirectSource,
} from './documents.ts';
import { finishTombstone } from './removal.ts';
import { fencesOfFrozen, WriteSteps } from './write-steps.ts';

/** Younger documents are left alone: an operation is probably still at work on them. */
const LEAVE_ALONE_MS = 5_000;
/** Documents of one kind that one sweep takes. */
const PAGE = 100;

/** A live publisher writes its document every second while it has changes to publish. */
const DEAD_AFTER_MS = 5_000;
/** Longer than searches lag behind, writes are late, and idle publishers stay in use. */
const FORGOTTEN_AFTER_MS = 5 * 60_000;
/** Publishers, and documents of one publisher, of one sweep. */
const PUBLISHER_PAGE = 1_000;

/**
 * Completes operations that were interrupted, and removes deletions past the retention. It alone searches. Callers depend
 * on it for one thing: changes of a process that died are published by it. Rejects with the first failure, after everything
 * else is done.
 */
export async function sweep(context: OperationContext, publish: PublishProfileChanges): Promise<void> {
  const { clock, retentionMs } = context;
  const before = clock() - LEAVE_ALONE_MS;
  const forgetBefore = forgetDeletionsBefore(clock(), retentionMs);
  const results = await Promise.allSettled([
    sweepPublishers(context, publish),
    each({ state: ['deleted'], dirty: true, before, limit: PAGE }, context, async (_, document) => {
      if (document.state === 'deleted' && document.dirty) await finishTombstone(document, context);
    }),
    each({ state: ['redirect'], before, limit: PAGE }, context, (ucid) => settleRedirect(ucid, context)),
    each({ state: ['deleted'], dirty: false, before: forgetBefore, limit: PAGE }, context, (ucid, document) =>
      forget(ucid, document, context),
    ),
  ]);
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}

async function each(
  query: DocumentQuery,
  { documents, logger }: OperationContext,
  work: (ucid: string, document: ProfileDocument) => Promise<void>,
): Promise<void> {
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
 * Completes a merge or split that was interrupted. If the merge of the redirect has happened, its content is removed. If
 * not, the merge is fenced out and the profile made live again; one that was split off is published then.
 */
async function settleRedirect(ucid: string, context: OperationContext): Promise<void> {
  const view = new View(context.documents, context.locations);
  await view.load([], [ucid]);
  const document = view.document(ucid);
  if (document?.state !== 'redirect') return;
  const root = view.rootOf(ucid);
  const steps = new WriteSteps(context, view);
  if (root.kind === 'profile' && root.ucid === ucid) {
    const { profile, deletions, untold } = document.content;
    if (!(await steps.fence(fencesOfFrozen(document, undefined, view), profile))) return;
    if (untold === true) {
      const splitOff = { profile, text: JSON.stringify(profile), change: changeOf(profile, profile) };
      await steps.commit({ document, deletions, ...splitOff });
    } else {
      await steps.put(ucid, liveSource(document.content, document.pending));
    }
    return;
  }
  if ('document' in root && !(await context.durable.rewriteOne(root.ucid, root.document))) return;
  await steps.put(ucid, mergedSource(document.to));
}

/** Removes the identity claims, then the redirects, then the tombstone: a claim must never lead to a missing document. */
async function forget(
  ucid: string,
  document: ProfileDocument,
  { documents }: OperationContext,
): Promise<void> {
  if (document.state !== 'deleted' || document.dirty) return;
  const { linked, unlinked = [] } = document.tombstone;
  const hashes = [...document.tombstone.claims, ...unlinked];
  const names = new Set([ucid, ...linked]);
  const claimed = await documents.read(hashes.map(identityClaimId));
  await documents.write(
    hashes.flatMap((hash, index) => {
      const stored = claimed[index];
      if (stored === undefined || !names.has(identityClaimOf(stored).ucid)) return [];
      return [{ id: identityClaimId(hash), expected: stored.version, source: 'removed' as const }];
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

/** Publishes changes left by publishers that died, and removes publishers that have left none. */
async function sweepPublishers(context: OperationContext, publish: PublishProfileChanges): Promise<void> {
  const { clock, documents, publisher } = context;
  const ids = await documents.find({
    state: ['publisher'],
    before: clock() - DEAD_AFTER_MS,
    limit: PUBLISHER_PAGE,
  });
  const found = await documents.read(ids);
  for (const [index, id] of ids.entries()) {
    const stored = found[index];
    const by = id.slice(publisherId('').length);
    // The search may have returned an outdated document.
    if (stored === undefined || publisher.isOwn(by)) continue;
    if ((stored.source.updated_ts ?? 0) >= clock() - DEAD_AFTER_MS) continue;
    const { published } = parsePublisher(stored);
    const pending = await documents.find({ pending: { by, after: published }, limit: PUBLISHER_PAGE });
    for (const document of await documents.read(pending)) {
      const profile = profileDocumentOf(document);
      if (profile !== undefined) await publishPending(profile, { by, after: published }, context, publish);
    }
    if (pending.length === 0 && (stored.source.updated_ts ?? 0) < clock() - FORGOTTEN_AFTER_MS)
      await documents.write([{ id, expected: stored.version, source: 'removed' }]);
  }
}

/** Publishes the last change of a document, then removes the mark that it is pending. */
async function publishPending(
  document: ProfileDocument,
  { by, after }: { readonly by: string; readonly after: number },
  { documents, durable }: OperationContext,
  publish: PublishProfileChanges,
): Promise<void> {
  if (document.state === 'folded' || document.pending?.by !== by || document.pending.n <= after) return;
  const change = unpublishedChange(document);
  // A change that never became durable must not be published.
  const rewritten = await durable.rewriteOne(change.ucid, document);
  if (rewritten === undefined) return;
  await publish([change]);
  await documents.write([
    { id: profileId(change.ucid), expected: rewritten, source: withoutPending(document) },
  ]);
}

type WithPending = Exclude<ProfileDocument, { state: 'folded' }>;

function unpublishedChange(document: WithPending): ProfileChange {
  if (document.state === 'deleted') {
    const { org, region, ucid, version, deletedAt: at, linked } = document.tombstone;
    return { kind: 'deleted', org, region, ucid, version, at, linked };
  }
  const { profile, unpublished: linked } = document.content;
  const { org, region, ucid, version, updated_ts: at } = profile;
  return { kind: linked.length > 0 ? 'merged' : 'written', org, region, ucid, version, at, profile, linked };
}

function withoutPending(document: WithPending): DocumentSource {
  switch (document.state) {
    case 'deleted':
      return deletedSource(
        document.tombstone,
        document.dirty,
        document.stored.source.updated_ts ?? 0,
        undefined,
      );
    case 'live':
      return liveSource({ ...document.content, unpublished: [] }, undefined);
    case 'redirect':
      return redirectSource({ ...document.content, unpublished: [] }, undefined, document.to);
  }
}
