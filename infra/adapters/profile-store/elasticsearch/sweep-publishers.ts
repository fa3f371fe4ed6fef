import type { ProfileChange, PublishProfileChanges } from '@tributary/core';
import type { ChangePublisher } from './change-publisher.ts';
import {
  deletedSource,
  liveSource,
  type ProfileDocument,
  profileDocumentOf,
  profileId,
  redirectSource,
} from './document-forms.ts';
import type { DocumentSource } from './documents.ts';
import { parsePublisher, publisherId } from './publisher-form.ts';
import type { StoreTools } from './store-tools.ts';

/** A publisher that is alive says so every second while it has something to publish. */
const DEAD_AFTER_MS = 5_000;
/** Longer than a search may be behind and a write may be late, and than a publisher that is idle is used. */
const FORGOTTEN_AFTER_MS = 5 * 60_000;
const PAGE = 1_000;

/** Publishes what publishers that are gone have left, and forgets those that have left nothing. */
export async function sweepPublishers(
  tools: StoreTools,
  publisher: ChangePublisher,
  publish: PublishProfileChanges,
): Promise<void> {
  const { clock, documents } = tools;
  const ids = await documents.find({ state: ['publisher'], before: clock() - DEAD_AFTER_MS, limit: PAGE });
  const found = await documents.read(ids);
  for (const [index, id] of ids.entries()) {
    const stored = found[index];
    const by = id.slice(publisherId('').length);
    // What was found may be behind what is.
    if (stored === undefined || publisher.isOwn(by)) continue;
    if ((stored.source.updated_ts ?? 0) >= clock() - DEAD_AFTER_MS) continue;
    const { published } = parsePublisher(stored);
    const left = await documents.find({ pending: { by, after: published }, limit: PAGE });
    for (const document of await documents.read(left)) {
      const profile = profileDocumentOf(document);
      if (profile !== undefined) await publishLeft(profile, { by, after: published }, tools, publish);
    }
    if (left.length === 0 && (stored.source.updated_ts ?? 0) < clock() - FORGOTTEN_AFTER_MS)
      await documents.write([{ id, expected: stored.version, source: 'removed' }]);
  }
}

/** Publishes the last change of a document, and then says in the document that it is. */
async function publishLeft(
  document: ProfileDocument,
  { by, after }: { readonly by: string; readonly after: number },
  { documents, durable }: StoreTools,
  publish: PublishProfileChanges,
): Promise<void> {
  if (document.state === 'folded' || document.pending?.by !== by || document.pending.n <= after) return;
  const change = changeLeftBy(document);
  if (change === undefined) return;
  // What was never durable is not to be told.
  const asserted = await durable.assertOne(change.ucid, document);
  if (asserted === undefined) return;
  await publish([change]);
  await documents.write([
    { id: profileId(change.ucid), expected: asserted, source: withoutPending(document) },
  ]);
}

type WithPending = Exclude<ProfileDocument, { state: 'folded' }>;

function changeLeftBy(document: WithPending): ProfileChange {
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
