import { setTimeout as sleep } from 'node:timers/promises';
import { type HistoryEntry, InvalidInput, MAX_HISTORY_FACETS, Unavailable } from '@tributary/core';
import { type ElasticsearchConnection, refused } from '../../elasticsearch/index.ts';
import { documentId, documentOf } from './document.ts';
import type { PeriodIndices } from './period-indices.ts';

/** Bounds of one bulk request; building it blocks the thread for some ms. */
const BULK_DOCUMENTS = 500;
const BULK_CHARACTERS = 1_000_000;

/** A smaller request waits for no other. */
const LARGE_DOCUMENTS = 50;
/** The longest rest after a large request, ms. */
const LONGEST_REST_MS = 1_000;

/** Bound of ids: a term of an index has at most 32,766 bytes. */
const MAX_ID_LENGTH = 1_000;
/** The largest time of a `Date`. */
const MAX_TIME = 8.64e15;

/**
 * Puts each entry by its id into the index of its period. A lower version than the stored one is ignored. Large requests are
 * made one at a time, each followed by a rest of its own length: the same nodes write and search the profiles of others.
 */
export class HistoryWriter {
  readonly #connection: ElasticsearchConnection;
  readonly #indices: PeriodIndices;
  readonly #underWay = new Set<Promise<void>>();
  #lastLarge: Promise<unknown> = Promise.resolve();

  constructor(connection: ElasticsearchConnection, indices: PeriodIndices) {
    this.#connection = connection;
    this.#indices = indices;
  }

  put(entries: readonly HistoryEntry[]): Promise<void> {
    const done = this.#put(entries).finally(() => this.#underWay.delete(done));
    this.#underWay.add(done);
    return done;
  }

  /** Resolves when all puts under way have ended, successfully or not. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#underWay);
  }

  async #put(entries: readonly HistoryEntry[]): Promise<void> {
    for (const entry of entries) checkEntry(entry);
    const dated: DatedEntry[] = [];
    for (const entry of entries) dated.push({ entry, period: await this.#indices.periodOf(entry.at) });
    for (const bulk of bulksOf(latest(dated)))
      await (bulk.entries.length < LARGE_DOCUMENTS ? this.#send(bulk) : this.#sendInTurn(bulk));
  }

  #sendInTurn(bulk: Bulk): Promise<void> {
    let began = 0;
    const done = this.#lastLarge.then(() => {
      began = performance.now();
      return this.#send(bulk);
    });
    const rest = () => sleep(Math.min(LONGEST_REST_MS, performance.now() - began), undefined, { ref: false });
    this.#lastLarge = done.then(rest, rest);
    return done;
  }

  async #send(bulk: Bulk): Promise<void> {
    for (const period of new Set(bulk.entries.map((one) => one.period))) await this.#indices.open(period);
    let answers: readonly ItemAnswer[];
    try {
      answers = await this.#request(bulk);
    } catch (error) {
      // A single entry may be the reason for the refusal of the whole request.
      if (!(error instanceof InvalidInput) || bulk.entries.length === 1) throw error;
      return this.#sendEach(bulk.entries);
    }
    const { withoutIndex, fault } = outcomeOf(answers);
    for (const index of withoutIndex) this.#indices.forget(bulk.entries[index]?.period ?? '');
    if (fault !== undefined) throw fault;
  }

  /** One answer per entry, in their order. `Unavailable` when answers are missing. */
  async #request({ entries, operations }: Bulk): Promise<readonly ItemAnswer[]> {
    const { items = [] } = await this.#connection.call((client) =>
      client.bulk({ operations: [...operations], filter_path: ['items.*.status', 'items.*.error.type'] }),
    );
    const answers = items.flatMap(({ index }) => (index === undefined ? [] : [index as ItemAnswer]));
    if (answers.length !== entries.length)
      throw new Unavailable('Elasticsearch did not answer for every entry');
    return answers;
  }

  /** Puts the entries one by one, and throws the first `InvalidInput` after the last one. */
  async #sendEach(entries: readonly DatedEntry[]): Promise<void> {
    let fault: InvalidInput | undefined;
    for (const bulk of entries.flatMap((one) => [...bulksOf([one])])) {
      try {
        await this.#send(bulk);
      } catch (error) {
        if (!(error instanceof InvalidInput)) throw error;
        fault ??= error;
      }
    }
    if (fault !== undefined) throw fault;
  }
}

/** `InvalidInput` for an entry that could never be put. */
function checkEntry({ workspaceId, id, at, version, facets }: HistoryEntry): void {
  if (Object.keys(facets).length > MAX_HISTORY_FACETS)
    throw new InvalidInput(`an entry has at most ${MAX_HISTORY_FACETS} facets`);
  if (workspaceId.length > MAX_ID_LENGTH || id.length > MAX_ID_LENGTH)
    throw new InvalidInput(`the id and the workspace of an entry have at most ${MAX_ID_LENGTH} characters`);
  if (!Number.isInteger(at) || Math.abs(at) > MAX_TIME)
    throw new InvalidInput('the time of an entry is invalid');
  if (!Number.isSafeInteger(version) || version < 0)
    throw new InvalidInput('the version of an entry is a whole number from 0');
}

/** An entry and its period. */
interface DatedEntry {
  readonly entry: HistoryEntry;
  readonly period: string;
}

/** One bulk request. */
interface Bulk {
  readonly entries: readonly DatedEntry[];
  /** The lines of the request. */
  readonly operations: readonly string[];
}

/** The highest version of each entry, the later of equal ones: the order within a request is not guaranteed. */
export function latest(entries: readonly DatedEntry[]): readonly DatedEntry[] {
  const byId = new Map<string, DatedEntry>();
  for (const one of entries) {
    const { kind, workspaceId, id, version } = one.entry;
    const key = JSON.stringify([kind, workspaceId, id]);
    const before = byId.get(key);
    if (before === undefined || before.entry.version <= version) byId.set(key, one);
  }
  return [...byId.values()];
}

/** Requests of a bounded size, built lazily. */
export function* bulksOf(entries: readonly DatedEntry[]): Generator<Bulk> {
  let start = 0;
  let characters = 0;
  let operations: string[] = [];
  for (const [index, one] of entries.entries()) {
    const document = JSON.stringify(documentOf(one.entry));
    operations.push(actionOf(one), document);
    characters += document.length;
    const count = index + 1 - start;
    if (count < BULK_DOCUMENTS && characters < BULK_CHARACTERS && index + 1 < entries.length) continue;
    yield { entries: entries.slice(start, index + 1), operations };
    [start, characters, operations] = [index + 1, 0, []];
  }
}

/** A lower version than the stored one is refused; the same one replaces it. */
function actionOf({ entry, period }: DatedEntry): string {
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

/** The answer to one entry of a bulk request. */
export interface ItemAnswer {
  readonly status: number;
  readonly error?: { readonly type: string };
}

interface BulkOutcome {
  /** The positions in the request of entries whose period has no index. */
  readonly withoutIndex: readonly number[];
  /** Absent when every entry was put, or ignored because a higher version is stored. */
  readonly fault?: InvalidInput | Unavailable;
}

const [CONFLICT, NOT_FOUND] = [409, 404];

/** `Unavailable` when any entry may succeed later: a repetition then finds those that never will. */
export function outcomeOf(items: readonly ItemAnswer[]): BulkOutcome {
  const failed = [...items.entries()].filter(
    ([, { status, error }]) => error !== undefined && status !== CONFLICT,
  );
  const withoutIndex = failed.flatMap(([index, { status }]) => (status === NOT_FOUND ? [index] : []));
  const faults = failed.map(([, { status, error }]) => refused(status, error?.type));
  const fault = faults.find((one) => one instanceof Unavailable) ?? faults[0];
  return fault === undefined ? { withoutIndex } : { withoutIndex, fault };
}
