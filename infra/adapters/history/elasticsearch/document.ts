import { hash } from 'node:crypto';
import { groupIdOf, type HistoryEntry, type HistoryKind, type JsonObject, parseExact } from '@tributary/core';

/**
 * The mapping of every index. Fields for filters and sorting are indexed. The entry itself is a text that is only stored,
 * so that none can be refused for its depth, field names or long values. The marker is that of `period-indices.ts`, which
 * adds the field `group` to indices of older releases.
 */
export const MAPPING = {
  dynamic: 'strict',
  properties: {
    kind: { type: 'keyword', doc_values: false },
    workspace_id: { type: 'keyword', doc_values: false },
    facets: { type: 'keyword', doc_values: false },
    group: { type: 'keyword', index: false },
    at: { type: 'long' },
    id: { type: 'keyword', index: false },
    entry: { type: 'object', enabled: false },
    marker: { type: 'object', enabled: false },
  },
} as const;

/** The stored form of an entry. */
export interface HistoryDocument {
  readonly kind: HistoryKind;
  readonly workspace_id: string;
  /** `facetTerm` of each facet, and of the id of the group as the facet without a name. */
  readonly facets: readonly string[];
  /** The values of the group as JSON, to be counted by. */
  readonly group?: string;
  readonly at: number;
  readonly id: string;
  /** The entry as JSON; an entry with a detail in two texts, so that a list can leave the detail out. */
  readonly entry: string | { readonly listed: string; readonly detail?: string };
}

/** The field that a search without details excludes. */
export const DETAIL_FIELD = 'entry.detail';

export function documentOf(entry: HistoryEntry): HistoryDocument {
  const { kind, workspaceId, facets, group, at, id } = entry;
  return {
    kind,
    workspace_id: workspaceId,
    facets: facetTerms(facets, group && groupIdOf(group)),
    ...(group === undefined ? {} : { group: groupText(group) }),
    at,
    id,
    entry: storedOf(entry),
  };
}

function storedOf({ detail, group: _, ...entry }: HistoryEntry): HistoryDocument['entry'] {
  const listed = JSON.stringify(entry);
  return detail === undefined ? listed : { listed, detail: JSON.stringify(detail) };
}

export function entryOf({ entry }: HistoryDocument): HistoryEntry {
  if (typeof entry === 'string') return parseExact(entry) as HistoryEntry;
  const listed = parseExact(entry.listed) as HistoryEntry;
  return entry.detail === undefined ? listed : { ...listed, detail: parseExact(entry.detail) as JsonObject };
}

/** The document id: of fixed length, whatever the entry's id, and distinct for each workspace. */
export function documentId(kind: HistoryKind, workspaceId: string, id: string): string {
  return hash('sha256', JSON.stringify([kind, workspaceId, id]), 'base64url');
}

/** The values of a group as a text, the same for the same values. */
function groupText(values: Readonly<Record<string, string>>): string {
  return JSON.stringify(Object.fromEntries(Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1))));
}

/** The index terms of facets: hashes of fixed length, so that values of any length and content match exactly. */
export function facetTerms(facets: HistoryEntry['facets'], groupId?: string): readonly string[] {
  const all = [...Object.entries(facets), ...(groupId === undefined ? [] : [['', groupId]])];
  return all.map((facet) => hash('sha256', JSON.stringify(facet), 'base64url').slice(0, 22));
}
