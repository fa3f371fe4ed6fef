import type { Contract } from '../catalog/entities.ts';
import type { JsonObject } from '../event/event.ts';
import type { HistoryEntry } from '../ports/history.ts';

/** The id that history knows a version of a contract by; of one time, the later version is listed first. */
export function contractVersionId(contractId: string, version: number): string {
  return `${contractId}:${String(version).padStart(10, '0')}`;
}

/**
 * What history keeps when a contract becomes another: the new version, and once more the one it replaced. History
 * keeps an entry for its retention after the last put, so a past version can be read for as long as anything that it
 * found: the catalog itself forgets it when it judges nothing any more. The same facts give the same entries.
 */
export function contractVersionEntries(
  before: Contract | undefined,
  after: Contract | undefined,
): readonly HistoryEntry[] {
  if (before?.version === after?.version) return [];
  return [
    ...(before === undefined ? [] : [entryOf(before, 2)]),
    ...(after === undefined ? [] : [entryOf(after, 1)]),
  ];
}

function entryOf(contract: Contract, put: 1 | 2): HistoryEntry {
  return {
    kind: 'contract',
    id: contractVersionId(contract.id, contract.version),
    workspaceId: contract.workspace_id,
    at: Date.parse(contract.updated_at),
    version: put,
    facets: { contract_id: contract.id },
    body: contract as Contract & JsonObject,
  };
}
