import {
  type CatalogView,
  type Contract,
  contractVersionId,
  type History,
  type HistoryEntry,
} from '@tributary/core';
import type { Page, PageRequest } from '../../resources/pagination.ts';

/** The cursor of the page behind the newest version, where that filled the first one by itself. */
const BEHIND_NEWEST = 'past';

interface Sources {
  readonly state: CatalogView;
  readonly history: Pick<History, 'list' | 'get'>;
}

/**
 * A version of a contract. The catalog has the newest, and those that may still judge; history each past one for its
 * retention after another took its place. Undefined for one that never was, or is kept no longer.
 */
export async function versionOf(
  { id, workspace_id }: Contract,
  version: number,
  { state, history }: Sources,
): Promise<Contract | undefined> {
  const known = state.contractVersion(workspace_id, id, version);
  if (known !== undefined) return known;
  const entry = await history.get('contract', workspace_id, contractVersionId(id, version));
  return entry && contractIn(entry);
}

/**
 * The versions of a contract, newest first: the newest from the catalog, whatever history knows of it; one that was
 * just replaced may take a second to be listed. A page after the first may be one short.
 */
export async function versionsOf(
  contract: Contract,
  { limit, cursor }: PageRequest,
  { history }: Pick<Sources, 'history'>,
): Promise<Page<Contract>> {
  const isFirst = cursor === undefined;
  if (isFirst && limit === 1)
    return { items: [contract], next: contract.version > 1 ? BEHIND_NEWEST : undefined };
  const { entries, next } = await history.list({
    kind: 'contract',
    workspaceId: contract.workspace_id,
    facets: { contract_id: contract.id },
    limit: isFirst ? limit - 1 : limit,
    ...(isFirst || cursor === BEHIND_NEWEST ? {} : { cursor }),
  });
  const past = entries.map(contractIn).filter(({ version }) => version !== contract.version);
  return { items: isFirst ? [contract, ...past] : past, next };
}

function contractIn(entry: HistoryEntry): Contract {
  return entry.body as unknown as Contract;
}
