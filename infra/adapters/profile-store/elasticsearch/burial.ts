import { messageOf } from '@tributary/core';
import {
  type DeletedDocument,
  deletedSource,
  foldedSource,
  profileDocumentOf,
  profileId,
} from './document-forms.ts';
import type { DocumentWrite } from './documents.ts';
import type { StoreTools } from './store-tools.ts';

/** After a deletion; nobody waits for it, and the sweeper does it where this does not. */
export async function buryNow(ucid: string, tools: StoreTools): Promise<void> {
  try {
    const [stored] = await tools.documents.read([profileId(ucid)]);
    const document = profileDocumentOf(stored);
    if (document?.state === 'deleted' && document.dirty) await bury(document, tools);
  } catch (error) {
    tools.logger.debug({ error: messageOf(error) }, 'a deletion is left to the sweeper to tidy');
  }
}

/**
 * Takes the data out of the redirects that lead to a tombstone, then says that nothing is left. What it rests on is
 * made durable first. Safe at any time and any number of times.
 */
export async function bury(
  { stored, pending, tombstone }: DeletedDocument,
  { documents }: StoreTools,
): Promise<void> {
  const id = profileId(tombstone.ucid);
  const [asserted] = await documents.write([{ id, expected: stored.version, source: stored.source }]);
  if (asserted === undefined || asserted === 'conflict') return;
  const found = await documents.read(tombstone.linked.map(profileId));
  const strips = found.flatMap((one, index): readonly DocumentWrite[] => {
    const document = profileDocumentOf(one);
    const ucid = tombstone.linked[index];
    if (document?.state !== 'redirect' || ucid === undefined) return [];
    return [{ id: profileId(ucid), expected: document.stored.version, source: foldedSource(document.to) }];
  });
  if ((await documents.write(strips)).includes('conflict')) return;
  const { updated_ts = 0 } = stored.source;
  await documents.write([
    { id, expected: asserted, source: deletedSource(tombstone, false, updated_ts, pending) },
  ]);
}
