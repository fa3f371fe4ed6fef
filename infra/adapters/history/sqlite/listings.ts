import { hash } from 'node:crypto';
import { type HistoryEntry, type HistoryKind, LEADING_FACET } from '@tributary/core';

/** SQL condition: the rows of a listing from `:since` on, strictly before the position `:at`, `:id`. */
export const IN_RANGE =
  'listed.listing = :listing AND listed.at >= :since AND (listed.at, listed.id) < (:at, :id)';
export const NEWEST_FIRST = 'ORDER BY listed.at DESC, listed.id DESC';

export type Facets = Readonly<Record<string, string>>;
export type Facet = readonly [name: string, value: string];
/** The fields of an entry that lists are built from. */
export type ListedEntry = Pick<HistoryEntry, 'kind' | 'workspaceId' | 'id' | 'at' | 'facets'>;

/** A listing to search for a query, and the facets of the query that remain to be filtered. */
export interface Narrowing {
  readonly listing: Uint8Array;
  readonly filters: readonly Facet[];
}

/**
 * The listings of an entry: one for its workspace and kind, one for each facet, and one for each pair of facets.
 *
 * - A query with up to two facets is thus one range of the index, however rare its entries are; of three and more
 *   facets, the others are filtered.
 * - Each listing costs a row of about 70 bytes: 4 rows for two facets, 7 for three, 11 for four, 16 for five.
 * - In a kind with a leading facet, the other facets have listings only in pairs with that one: 7 rows for six facets. A
 *   query without the leading facet is filtered.
 */
export function listingsOf(entry: ListedEntry): readonly Uint8Array[] {
  const { kind, workspaceId } = entry;
  const all = sorted(entry.facets);
  return [[], ...listedBy(kind, all)].map((some) => listing(kind, workspaceId, some));
}

/** For removal: also the listings of entries that were written when their kind had no leading facet. */
export function everyListingOf({ kind, workspaceId, facets }: ListedEntry): readonly Uint8Array[] {
  const all = sorted(facets);
  return [[], ...all.map((one) => [one]), ...pairs(all)].map((some) => listing(kind, workspaceId, some));
}

/** The listings with the most of these facets, each with the facets that remain to be filtered. */
export function narrowings(
  kind: HistoryKind,
  workspaceId: string,
  facets: Facets,
  group?: string,
): readonly [Narrowing, ...Narrowing[]] {
  const all = sorted(facets);
  if (group !== undefined) return [{ listing: groupListing(kind, workspaceId, group), filters: all }];
  const by = (chosen: readonly Facet[]): Narrowing => ({
    listing: listing(kind, workspaceId, chosen),
    filters: all.filter((facet) => !chosen.includes(facet)),
  });
  const candidates = listedBy(kind, all);
  const most = Math.max(0, ...candidates.map(({ length }) => length));
  const [first, ...others] = candidates.filter(({ length }) => length === most);
  return first === undefined ? [by([])] : [by(first), ...others.map(by)];
}

/** The listing of a group, by its id: no facet has an empty name. */
export function groupListing(kind: HistoryKind, workspaceId: string, group: string): Uint8Array {
  return listing(kind, workspaceId, [['', group]]);
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

/** The key of a listing: a hash of 16 bytes of kind, workspace and up to two facets. */
function listing(kind: HistoryKind, workspaceId: string, facets: readonly Facet[]): Uint8Array {
  return hash('sha256', JSON.stringify([kind, workspaceId, facets]), 'buffer').subarray(0, 16);
}
