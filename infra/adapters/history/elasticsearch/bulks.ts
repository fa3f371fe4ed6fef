import { type HistoryEntry, InvalidInput, MAX_HISTORY_FACETS } from '@tributary/core';
import { documentId, documentOf } from './document.ts';

/** Bounds of one request; making one holds up the thread for some ms. */
const DOCUMENTS_A_BULK = 500;
const CHARACTERS_A_BULK = 1_000_000;

/** A name that the index can hold whole: a term of it has 32,766 bytes at most. */
const LONGEST_NAME = 1_000;
/** The times that a `Date` can tell. */
const LATEST = 8.64e15;

/** `InvalidInput` for an entry that could never be put. */
export function checkEntry({ workspaceId, id, at, version, facets }: HistoryEntry): void {
  if (Object.keys(facets).length > MAX_HISTORY_FACETS)
    throw new InvalidInput(`an entry has at most ${MAX_HISTORY_FACETS} facets`);
  if (workspaceId.length > LONGEST_NAME || id.length > LONGEST_NAME)
    throw new InvalidInput(`the id and the workspace of an entry have at most ${LONGEST_NAME} characters`);
  if (!Number.isInteger(at) || Math.abs(at) > LATEST) throw new InvalidInput('the time of an entry is none');
  if (!Number.isSafeInteger(version) || version < 0)
    throw new InvalidInput('the version of an entry is a whole number from 0');
}

/** An entry and the period it belongs to. */
export interface Placed {
  readonly entry: HistoryEntry;
  readonly period: string;
}

/** The entries that one request carries. */
export interface Bulk {
  readonly placed: readonly Placed[];
  /** Lines of the request. */
  readonly operations: readonly string[];
}

/** Of several versions of one entry the one that wins, the later of equal ones: a request may carry them in any order. */
export function latest(placed: readonly Placed[]): readonly Placed[] {
  const byId = new Map<string, Placed>();
  for (const one of placed) {
    const { kind, workspaceId, id, version } = one.entry;
    const key = JSON.stringify([kind, workspaceId, id]);
    const before = byId.get(key);
    if (before === undefined || before.entry.version <= version) byId.set(key, one);
  }
  return [...byId.values()];
}

/** Requests of a bounded size, each made when it is asked for. */
export function* bulksOf(placed: readonly Placed[]): Generator<Bulk> {
  let start = 0;
  let characters = 0;
  let operations: string[] = [];
  for (const [index, one] of placed.entries()) {
    const document = JSON.stringify(documentOf(one.entry));
    operations.push(actionOf(one), document);
    characters += document.length;
    const taken = index + 1 - start;
    if (taken < DOCUMENTS_A_BULK && characters < CHARACTERS_A_BULK && index + 1 < placed.length) continue;
    yield { placed: placed.slice(start, index + 1), operations };
    [start, characters, operations] = [index + 1, 0, []];
  }
}

/** A lower version than the stored one is refused; the same one replaces. */
function actionOf({ entry, period }: Placed): string {
  const { kind, workspaceId, id, version } = entry;
  return JSON.stringify({
    index: {
      _index: period,
      _id: documentId(kind, workspaceId, id),
      version,
      version_type: 'external_gte',
      require_alias: true,
    },
  });
}
