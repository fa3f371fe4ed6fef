import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { type Profile, type ProfileChange, parseExact } from '@tributary/core';
import { reading } from '../../sqlite/database.ts';
import { ucidBytes } from './schema.ts';

/** A change in the outbox. It has no profile, so that a long backlog does not hold a copy for every version. */
export interface OutboxChange extends Omit<ProfileChange, 'profile'> {
  /** A ucid that was linked to the profile and is split off by the change. */
  readonly split?: string;
}

/** Largest row, in changes and merged ucids, because a row is parsed as a whole. A single change may be larger. */
const ROW_WEIGHT = 50;

/** The changes of a transaction as rows of the outbox, in order. */
export function* outboxRows(changes: readonly OutboxChange[]): Generator<readonly OutboxChange[]> {
  let row: OutboxChange[] = [];
  let weight = 0;
  for (const change of changes) {
    const added = 1 + change.linked.length;
    if (row.length > 0 && weight + added > ROW_WEIGHT) {
      yield row;
      [row, weight] = [[], 0];
    }
    row.push(change);
    weight += added;
  }
  if (row.length > 0) yield row;
}

/** Largest batch, characters; a single change may be larger. It is read and written as records in the thread of callers. */
const BATCH_CHARACTERS = 256 * 1024;
/** Profiles of this length are published at a bounded rate. */
const LARGE_CHARACTERS = 32 * 1024;
/** Most changes of a batch. They are read in the thread that answers callers, which this many occupy for about 1 ms. */
const BATCH_CHANGES = 50;

export interface UnpublishedChanges {
  /** In the order of their commits. Empty if later changes supersede all of them. */
  readonly changes: readonly ProfileChange[];
  /** The number of the last change that they cover. */
  readonly upTo: number;
  /** Characters of the large profiles among them. */
  readonly large: number;
}

interface Numbered {
  readonly at: number;
  readonly change: OutboxChange;
  /** Its share of the row's length, characters. */
  readonly weight: number;
}

/**
 * The reading side of the outbox. A change is published with the current profile, so several writes of one profile are
 * published as one. Merges and deletions are always published, also of a profile that does not exist any more.
 */
export class Outbox {
  readonly #after: StatementSync;
  readonly #profile: StatementSync;
  readonly #version: StatementSync;
  readonly #countPending: StatementSync;

  constructor(database: DatabaseSync) {
    this.#after = database.prepare('SELECT change, body FROM outbox WHERE change > ? ORDER BY change');
    this.#profile = database.prepare(
      `SELECT profiles.body FROM ucids JOIN profiles USING (profile)
       WHERE ucids.ucid = ? AND profiles.deleted_at IS NULL`,
    );
    this.#version = database.prepare('PRAGMA data_version');
    // Changes are numbered without gaps and removed in order, so two rows suffice to count them.
    this.#countPending = database.prepare(
      `SELECT (SELECT max(change) FROM outbox) - change + json_array_length(body) AS waiting
       FROM outbox ORDER BY change LIMIT 1`,
    );
  }

  /**
   * The next changes after this number; undefined if there are none. `published`: versions of profiles that are already
   * published, by ucid; writes up to them are skipped.
   */
  after(number: number, published: ReadonlyMap<string, number>): UnpublishedChanges | undefined {
    return reading(() => {
      const changesByUcid = new Map<string, ProfileChange>();
      let [upTo, count, characters, large] = [number, 0, 0, 0];
      for (const { at, change, weight } of this.#rowsAfter(number)) {
        if (++count > BATCH_CHANGES) break;
        if (change.kind === 'written' && change.version <= (published.get(change.ucid) ?? 0)) {
          upTo = at;
          continue;
        }
        const before = changesByUcid.get(change.ucid);
        if (before?.profile === undefined) {
          const text = change.kind === 'deleted' ? '' : this.#textOf(change.ucid);
          characters += weight + text.length;
          if (upTo !== number && characters > BATCH_CHARACTERS) break;
          if (text.length > LARGE_CHARACTERS) large += text.length;
          const current = text === '' ? undefined : (parseExact(text) as Profile);
          const profile = current?.ucid === change.ucid ? current : undefined;
          const all = mergedChange(before, change, profile);
          // The profile does not exist any more: a later deletion or merge in the outbox covers this write.
          if (profile === undefined && all.kind === 'written') changesByUcid.delete(change.ucid);
          else changesByUcid.set(change.ucid, all);
        } else {
          changesByUcid.set(change.ucid, mergedChange(before, change, before.profile));
        }
        upTo = at;
      }
      return upTo === number ? undefined : { changes: [...changesByUcid.values()], upTo, large };
    });
  }

  /** Changes with every commit of another connection. */
  version(): number {
    return reading(() => Number(this.#version.get()?.data_version));
  }

  /** The number of unpublished changes. */
  pending(): number {
    return reading(() => Number(this.#countPending.get()?.waiting ?? 0));
  }

  /** The changes after this number. The connection sees one snapshot of the file during the iteration. */
  *#rowsAfter(number: number): Generator<Numbered> {
    for (const { change: last, body } of this.#after.iterate(number)) {
      const text = String(body);
      const changes = parseExact(text) as readonly OutboxChange[];
      const weight = text.length / changes.length;
      let at = Number(last) - changes.length;
      for (const change of changes) if (++at > number) yield { at, change, weight };
    }
  }

  #textOf(ucid: string): string {
    return String(this.#profile.get(ucidBytes(ucid))?.body ?? '');
  }
}

/**
 * Two successive changes of one ucid as one; the profile, if there is one, is newer than both. Ucids split off since are not
 * listed; a deletion lists all merged ucids by itself.
 */
function mergedChange(
  before: ProfileChange | undefined,
  { split, ...change }: OutboxChange,
  profile: Profile | undefined,
): ProfileChange {
  if (change.kind === 'deleted') return change;
  const all = new Set([...(before?.linked ?? []).filter((ucid) => ucid !== split), ...change.linked]);
  const linked = [...all].filter((ucid) => profile === undefined || profile.linked.includes(ucid));
  const kind = linked.length > 0 ? 'merged' : 'written';
  if (profile === undefined) return { ...change, kind, linked };
  return { ...change, kind, linked, version: profile.version, at: profile.updated_ts, profile };
}
