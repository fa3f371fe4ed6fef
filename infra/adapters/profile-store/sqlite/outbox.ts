import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { type Profile, type ProfileChange, parseExact } from '@tributary/core';
import { reading } from '../../sqlite/database.ts';
import { ucidBytes } from './keys.ts';
import type { WaitingChange } from './outbox-row.ts';

/** A change goes with others until they weigh so much, characters. */
const BATCH_CHARACTERS = 1024 * 1024;
/** They are read in the thread that answers callers: so many hold it up for about a millisecond. */
const BATCH_CHANGES = 50;

export interface Unpublished {
  /** In the order of their commits. None, when what became of them is told by later ones. */
  readonly changes: readonly ProfileChange[];
  /** The number of the last one that is told by them. */
  readonly upTo: number;
}

interface Numbered {
  readonly at: number;
  readonly change: WaitingChange;
  /** Its part of a row, characters. */
  readonly weight: number;
}

/**
 * The reading side of the outbox. A change is told with the profile as it is now, so what was written to one profile in
 * the meantime is told once. Merges and deletions are always told, also of a profile that is no more.
 */
export class Outbox {
  readonly #after: StatementSync;
  readonly #profile: StatementSync;
  readonly #version: StatementSync;
  readonly #waiting: StatementSync;

  constructor(database: DatabaseSync) {
    this.#after = database.prepare('SELECT change, body FROM outbox WHERE change > ? ORDER BY change');
    this.#profile = database.prepare(
      `SELECT profiles.body FROM ucids JOIN profiles USING (profile)
       WHERE ucids.ucid = ? AND profiles.deleted_at IS NULL`,
    );
    this.#version = database.prepare('PRAGMA data_version');
    // They are numbered without gaps and taken out in order; to count them all would take as long as they are many.
    this.#waiting = database.prepare(
      `SELECT (SELECT max(change) FROM outbox) - change + json_array_length(body) AS waiting
       FROM outbox ORDER BY change LIMIT 1`,
    );
  }

  /**
   * The next changes behind the one with this number; undefined when there is none. `published` are versions of profiles
   * that were told already, by ucid: writes up to them are passed over.
   */
  after(number: number, published: ReadonlyMap<string, number>): Unpublished | undefined {
    return reading(() => {
      const told = new Map<string, ProfileChange>();
      let [upTo, count, characters] = [number, 0, 0];
      for (const { at, change, weight } of this.#following(number)) {
        if (++count > BATCH_CHANGES) break;
        if (change.kind === 'written' && change.version <= (published.get(change.ucid) ?? 0)) {
          upTo = at;
          continue;
        }
        const before = told.get(change.ucid);
        if (before?.profile === undefined) {
          const text = change.kind === 'deleted' ? '' : this.#textOf(change.ucid);
          characters += weight + text.length;
          if (upTo !== number && characters > BATCH_CHARACTERS) break;
          const current = text === '' ? undefined : (parseExact(text) as Profile);
          const profile = current?.ucid === change.ucid ? current : undefined;
          const all = toldWith(before, change, profile);
          // Of what was written to a profile that is no more, the deletion or merge behind it tells.
          if (profile === undefined && all.kind === 'written') told.delete(change.ucid);
          else told.set(change.ucid, all);
        } else {
          told.set(change.ucid, toldWith(before, change, before.profile));
        }
        upTo = at;
      }
      return upTo === number ? undefined : { changes: [...told.values()], upTo };
    });
  }

  /** Another number whenever anybody has committed. */
  version(): number {
    return reading(() => Number(this.#version.get()?.data_version));
  }

  /** How many changes wait. */
  waiting(): number {
    return reading(() => Number(this.#waiting.get()?.waiting ?? 0));
  }

  /** Changes behind the one with this number. While they are iterated the connection sees one state of the file. */
  *#following(number: number): Generator<Numbered> {
    for (const { change: last, body } of this.#after.iterate(number)) {
      const text = String(body);
      const changes = parseExact(text) as readonly WaitingChange[];
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
 * Two changes of one ucid, in order, as one; the profile, where it is there, is newer than both. What was split off by
 * then is not linked any more; a deletion names by itself all that led to the record.
 */
function toldWith(
  before: ProfileChange | undefined,
  { split, ...change }: WaitingChange,
  profile: Profile | undefined,
): ProfileChange {
  if (change.kind === 'deleted') return change;
  const all = new Set([...(before?.linked ?? []).filter((ucid) => ucid !== split), ...change.linked]);
  const linked = [...all].filter((ucid) => profile === undefined || profile.linked.includes(ucid));
  const kind = linked.length > 0 ? 'merged' : 'written';
  if (profile === undefined) return { ...change, kind, linked };
  return { ...change, kind, linked, version: profile.version, at: profile.updated_ts, profile };
}
