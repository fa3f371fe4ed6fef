import type { HistoryEntry, HistoryKind, JsonObject } from '@tributary/core';

/** A row of `entries` as a history entry. Its texts were written by this adapter. */
export function entryOf(row: Record<string, unknown>): HistoryEntry {
  return {
    kind: row.kind as HistoryKind,
    id: String(row.id),
    workspaceId: String(row.workspace_id),
    at: Number(row.at),
    version: Number(row.version),
    facets: JSON.parse(String(row.facets)) as Record<string, string>,
    body: JSON.parse(String(row.body)) as JsonObject,
  };
}
