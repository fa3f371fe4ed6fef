import { hash } from 'node:crypto';
import { type HistoryEntry, type HistoryKind, LEADING_FACET } from '@tributary/core';

/** SQL: the rows of a listing from `:since` on that come strictly before the place of `:at` and `:id`. */
export const IN_RANGE =
  'listed.listing = :listing AND listed.at >= :since AND (listed.at, listed.id) < (:at, :id)';
export const NEWEST_FIRST = 'ORDER BY listed.at DESC, listed.id DESC';

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
 * 11 for four, 16 for five. Of a kind with a leading facet the other facets stand in pairs with that one alone: 7 for
 * six. What is not narrowed by the leading one is then filtered.
 */
export function listingsOf(entry: Listed): readonly Uint8Array[] {
  const { kind, workspaceId } = entry;
  const all = sorted(entry.facets);
  return [[], ...listedBy(kind, all)].map((some) => listing(kind, workspaceId, some));
}

/** Also those that an entry stood in when its kind had no leading facet, for who takes it out of all. */
export function everyListingOf({ kind, workspaceId, facets }: Listed): readonly Uint8Array[] {
  const all = sorted(facets);
  return [[], ...all.map((one) => [one]), ...pairs(all)].map((some) => listing(kind, workspaceId, some));
}

/** Every way to narrow by these facets as far as the listings go: by most of them first. */
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
  const ways = listedBy(kind, all);
  const most = Math.max(0, ...ways.map(({ length }) => length));
  const [first, ...others] = ways.filter(({ length }) => length === most);
  return first === undefined ? [by([])] : [by(first), ...others.map(by)];
}

/** The facets, and pairs of facets, that have a listing. */
function listedBy(kind: HistoryKind, all: readonly Facet[]): readonly (readonly Facet[])[] {
  const leading = LEADING_FACET[kind];
  const isListed = (some: readonly Facet[]) =>
    leading === undefined || some.some(([name]) => name === leading);
  return [...all.map((one) => [one]), ...pairs(all)].filter(isListed);
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
