import { hash } from 'node:crypto';
import type { HistoryEntry, HistoryKind } from '@tributary/core';

export type Facets = Readonly<Record<string, string>>;
export type Facet = readonly [name: string, value: string];
/** What decides where an entry stands in lists. */
export type Listed = Pick<HistoryEntry, 'kind' | 'workspaceId' | 'id' | 'at' | 'facets'>;

/** A listing that can be searched, and the facets it leaves to be filtered. */
export interface Narrowing {
  readonly listing: Uint8Array;
  readonly filters: readonly Facet[];
}

/**
 * The listings an entry stands in: that of its workspace and kind, one for each facet, and one for each pair of
 * facets. A list narrowed by up to two facets is thus one range of the index however rare what it looks for is; of
 * three and more the rest is filtered. The cost is a row of about 70 bytes per listing: 4 for two facets, 7 for three,
 * 11 for four, 16 for five.
 */
export function listingsOf({ kind, workspaceId, facets }: Listed): readonly Uint8Array[] {
  const all = sorted(facets);
  return [[], ...all.map((one) => [one]), ...pairs(all)].map((some) => listing(kind, workspaceId, some));
}

/** Every way to narrow by these facets as far as the listings go: one, or for three and more one for each pair. */
export function narrowings(
  kind: HistoryKind,
  workspaceId: string,
  facets: Facets,
): readonly [Narrowing, ...Narrowing[]] {
  const all = sorted(facets);
  const by = (chosen: readonly Facet[]): Narrowing => ({
    listing: listing(kind, workspaceId, chosen),
    filters: all.filter((facet) => !chosen.includes(facet)),
  });
  const [first, ...others] = pairs(all);
  return first === undefined ? [by(all)] : [by(first), ...others.map(by)];
}

function pairs(all: readonly Facet[]): readonly (readonly [Facet, Facet])[] {
  return all.flatMap((one, index) => all.slice(index + 1).map((other) => [one, other] as const));
}

function sorted(facets: Facets): readonly Facet[] {
  return Object.entries(facets).sort(([one], [other]) => (one < other ? -1 : 1));
}

/** 16 bytes that stand for a kind, a workspace and up to two facets. */
function listing(kind: HistoryKind, workspaceId: string, facets: readonly Facet[]): Uint8Array {
  return hash('sha256', JSON.stringify([kind, workspaceId, facets]), 'buffer').subarray(0, 16);
}
