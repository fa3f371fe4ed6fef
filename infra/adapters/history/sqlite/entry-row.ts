import { type HistoryEntry, type HistoryKind, type JsonObject, parseExact } from '@tributary/core';
import type { Facets, Listed } from './listings.ts';

/** A row of `entries` as a history entry. Its texts were written by this adapter. */
export function entryOf(row: Record<string, unknown>): HistoryEntry {
  return {
    ...listedOf(row),
    version: Number(row.version),
    body: parseExact(String(row.body)) as JsonObject,
    ...(typeof row.detail === 'string' ? { detail: parseExact(row.detail) as JsonObject } : {}),
  };
}

/** Where the entry of a row stands in lists; reads neither its version nor its body. */
export function listedOf(row: Record<string, unknown>): Listed {
  return {
    kind: row.kind as HistoryKind,
    id: String(row.id),
    workspaceId: String(row.workspace_id),
    at: Number(row.at),
    facets: facetsOf(row),
  };
}

export function facetsOf(row: Record<string, unknown>): Facets {
  return JSON.parse(String(row.facets)) as Facets;
}
