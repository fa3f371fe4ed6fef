import { hash } from 'node:crypto';
import {
  type HistoryEntry,
  type HistoryKind,
  type JsonObject,
  LEADING_FACET,
  parseExact,
} from '@tributary/core';
import type { Schema } from '../../sqlite/database.ts';

/**
 * The group of each entry that has one, with its listing, and of each group its values and the number of its entries. An entry
 * that is changed or dropped leaves its group by triggers.
 */
const GROUPS = `
  CREATE TABLE grouped (entry INTEGER PRIMARY KEY, id TEXT NOT NULL, listing BLOB);
  CREATE TABLE groups (
    kind TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    id TEXT NOT NULL,
    "values" TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (kind, workspace_id, id)
  ) WITHOUT ROWID;
  ${leavesGroup('UPDATE')}
  ${leavesGroup('DELETE')}
`;

function leavesGroup(change: 'UPDATE' | 'DELETE'): string {
  const own = 'SELECT id FROM grouped WHERE entry = OLD.entry';
  const group = `kind = OLD.kind AND workspace_id = OLD.workspace_id AND id = (${own})`;
  return `
    CREATE TRIGGER leaves_group_by_${change.toLowerCase()} AFTER ${change} ON entries WHEN EXISTS (${own})
    BEGIN
      DELETE FROM listed
        WHERE listing = (SELECT listing FROM grouped WHERE entry = OLD.entry) AND at = OLD.at AND id = OLD.id;
      UPDATE groups SET count = count - 1 WHERE ${group};
      DELETE FROM groups WHERE ${group} AND count < 1;
      DELETE FROM grouped WHERE entry = OLD.entry;
    END;
  `;
}

/**
 * `written_at` is the time of the last put, from which the retention is counted. `listed` has one row for each listing
 * that an entry is in (`listingsOf`). `detail` is the last column, so that a list without details does not read its pages.
 */
const TABLES = `
  CREATE TABLE entries (
    entry INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    written_at INTEGER NOT NULL,
    version INTEGER NOT NULL,
    facets TEXT NOT NULL,
    body TEXT NOT NULL,
    detail TEXT,
    UNIQUE (kind, workspace_id, id)
  );
  CREATE INDEX entries_by_age ON entries (written_at);
  CREATE TABLE listed (
    listing BLOB NOT NULL,
    at INTEGER NOT NULL,
    id TEXT NOT NULL,
    entry INTEGER NOT NULL,
    PRIMARY KEY (listing, at DESC, id DESC)
  ) WITHOUT ROWID;
  ${GROUPS}
  PRAGMA user_version = 3;
`;

/** A release opens no file of another version: it is raised only by a change that the release before cannot work with. */
export const SCHEMA: Schema = {
  version: 3,
  tables: TABLES,
  advice: 'run the program that made it, or move the file away to start an empty history',
};

/** The history entry of a row of `entries`. */
export function entryOf(row: Record<string, unknown>): HistoryEntry {
  return {
    ...listedOf(row),
    version: Number(row.version),
    body: parseExact(String(row.body)) as JsonObject,
    ...(typeof row.detail === 'string' ? { detail: parseExact(row.detail) as JsonObject } : {}),
  };
}

/** The fields of a row that lists are built from; does not parse version and body. */
export function listedOf(row: Record<string, unknown>): ListedEntry {
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

/** SQL condition: the rows of a listing from `:since` on, strictly before the position `:at`, `:id`. */
export const IN_RANGE =
  'listed.listing = :listing AND listed.at >= :since AND (listed.at, listed.id) < (:at, :id)';
export const NEWEST_FIRST = 'ORDER BY listed.at DESC, listed.id DESC';

type Facets = Readonly<Record<string, string>>;
type Facet = readonly [name: string, value: string];
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
