import { hash } from 'node:crypto';
import type { HistoryEntry, HistoryKind } from '@tributary/core';

export type Facets = Readonly<Record<string, string>>;
type Facet = readonly [name: string, value: string];

/**
 * The listings an entry stands in: that of its workspace and kind, one for each facet, and one for each pair of
 * facets. A list narrowed by up to two facets is thus one range of the index however rare what it looks for is; of
 * three and more the rest is filtered. The cost is a row of about 70 bytes per listing: 4 for two facets, 7 for three,
 * 11 for four, 16 for five.
 */
export function listingsOf({ kind, workspaceId, facets }: HistoryEntry): readonly Uint8Array[] {
  const all = sorted(facets);
  const pairs = all.flatMap((one, index) => all.slice(index + 1).map((other) => [one, other]));
  return [[], ...all.map((one) => [one]), ...pairs].map((some) => listing(kind, workspaceId, some));
}

/** The listing to search, and the facets it leaves to be filtered. */
export function listingFor(
  kind: HistoryKind,
  workspaceId: string,
  facets: Facets,
): { readonly listing: Uint8Array; readonly filters: readonly Facet[] } {
  const all = sorted(facets);
  return { listing: listing(kind, workspaceId, all.slice(0, 2)), filters: all.slice(2) };
}

function sorted(facets: Facets): readonly Facet[] {
  return Object.entries(facets).sort(([one], [other]) => (one < other ? -1 : 1));
}

/** 16 bytes that stand for a kind, a workspace and up to two facets. */
function listing(kind: HistoryKind, workspaceId: string, facets: readonly Facet[]): Uint8Array {
  return hash('sha256', JSON.stringify([kind, workspaceId, facets]), 'buffer').subarray(0, 16);
}
