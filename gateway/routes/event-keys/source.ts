import type { CatalogView } from '@tributary/core';
import { invalidRequest } from '../../errors/api-error.ts';

/** The source a new write key names, if any. 400 for one that its workspace does not have. */
export function sourceNamed(
  wanted: string | undefined,
  workspaceId: string,
  state: Pick<CatalogView, 'entity'>,
): string | null {
  if (wanted === undefined) return null;
  const id = wanted.toLowerCase();
  if (state.entity('source', workspaceId, id) === undefined)
    throw invalidRequest({ path: '/source_id', message: 'is no source of this workspace' });
  return id;
}
