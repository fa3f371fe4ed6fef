import { join } from 'node:path';
import { identityHash, type Profile, parseExact } from '@tributary/core';
import { openForExport } from '../../sqlite/database.ts';
import { Outbox } from './outbox.ts';
import { type Deletion, identityDigest, SCHEMA, type Tombstone, ucidBytes } from './schema.ts';

/** A row of the profiles, with what leads to it. */
export type ExportedProfile = LiveExport | DeletedExport | ForgottenExport;

interface Row {
  /** Grows from one row to the next. */
  readonly row: number;
}

export interface LiveExport extends Row {
  readonly kind: 'live';
  readonly profile: Profile;
  /** Its JSON. */
  readonly text: string;
  /** When identities of it were last deleted, together with an earlier profile: epoch ms by `identityHash`. */
  readonly deletions: Readonly<Record<string, number>>;
}

export interface DeletedExport extends Row, Deletion {
  readonly kind: 'deleted';
  /** Epoch ms. */
  readonly deletedAt: number;
  /** The ucid of the profile, then those that were merged into it; empty where only an identity was taken from one. */
  readonly ucids: readonly string[];
  /** The hashes whose identities no profile has again. */
  readonly unclaimed: readonly string[];
}

/** A deletion that an older release wrote, whose identities cannot be found out. */
interface ForgottenExport extends Row {
  readonly kind: 'forgotten';
  readonly deletedAt: number;
}

/** The change of a profile that is not published yet. */
export interface UnpublishedChange {
  /** Grows with the order of commits; no two changes have the same. */
  readonly number: number;
  /** Ucids that were merged into the profile since the last published change. */
  readonly linked: readonly string[];
}

interface ProfileCounts {
  readonly live: number;
  readonly deleted: number;
  /** Deleted profiles that can only be exported as `forgotten`, and when the last one was deleted, epoch ms. */
  readonly forgotten: number;
  readonly lastForgotten: number;
}

/** The profiles of a folder that no process writes to. */
interface ProfileExport {
  /** The next rows, at most `limit` and some MB of them; empty at the end. */
  after(row: number, limit: number): readonly ExportedProfile[];
  /** By ucid. */
  unpublished(): ReadonlyMap<string, UnpublishedChange>;
  counts(): ProfileCounts;
  close(): void;
}

/** Characters of the profiles of one page; a profile may have more. */
const PAGE_CHARACTERS = 8 * 1024 * 1024;

/** Undefined where no profile was ever written. `InvalidInput` where an older release wrote the file. */
export function openProfileExport(folder: string): ProfileExport | undefined {
  const database = openForExport(join(folder, 'profiles.db'), SCHEMA);
  if (database === undefined) return undefined;
  const after = database.prepare(
    'SELECT profile, deleted_at, body FROM profiles WHERE profile > ? ORDER BY profile LIMIT ?',
  );
  const claim = database.prepare('SELECT profile, deleted_at FROM claims WHERE claim = ?');
  const ucid = database.prepare('SELECT profile FROM ucids WHERE ucid = ?');
  const counts = database.prepare(
    `SELECT count(*) FILTER (WHERE deleted_at IS NULL) AS live,
            count(*) FILTER (WHERE deleted_at IS NOT NULL) AS deleted,
            count(*) FILTER (WHERE deleted_at IS NOT NULL AND body ->> '$.deletion' IS NULL) AS forgotten,
            max(deleted_at) FILTER (WHERE body ->> '$.deletion' IS NULL) AS last_forgotten
     FROM profiles`,
  );

  function live(row: number, text: string): LiveExport {
    const profile = parseExact(text) as Profile;
    const deletions: Record<string, number> = {};
    for (const identity of profile.identities) {
      const at = claim.get(identityDigest(profile, identity))?.deleted_at;
      if (typeof at === 'number') deletions[identityHash(profile, identity)] = at;
    }
    return { row, kind: 'live', profile, text, deletions };
  }

  function deleted(row: number, deletedAt: number, text: string): DeletedExport | ForgottenExport {
    const { claims, ucids, deletion } = JSON.parse(text) as Tombstone;
    if (deletion === undefined) return { row, kind: 'forgotten', deletedAt };
    const leadsHere = (key: Buffer) => Number(claim.get(key)?.profile) === row;
    return {
      row,
      kind: 'deleted',
      deletedAt,
      ...deletion,
      ucids: ucids.filter((one) => Number(ucid.get(ucidBytes(one))?.profile) === row),
      unclaimed: deletion.hashes.filter((_, at) => leadsHere(Buffer.from(claims[at] ?? '', 'hex'))),
    };
  }

  return {
    after(row, limit) {
      const page: ExportedProfile[] = [];
      let characters = 0;
      for (const { profile, deleted_at, body } of after.iterate(row, limit)) {
        const [number, text] = [Number(profile), String(body)];
        page.push(deleted_at === null ? live(number, text) : deleted(number, Number(deleted_at), text));
        characters += text.length;
        if (characters >= PAGE_CHARACTERS) break;
      }
      return page;
    },
    unpublished() {
      const outbox = new Outbox(database);
      const changes = new Map<string, UnpublishedChange>();
      let number = 0;
      for (let upTo = 0; ; ) {
        const next = outbox.after(upTo, new Map());
        if (next === undefined) return changes;
        for (const change of next.changes) {
          const linked = [...(changes.get(change.ucid)?.linked ?? []), ...change.linked];
          changes.set(change.ucid, { number: ++number, linked });
        }
        upTo = next.upTo;
      }
    },
    counts() {
      const { live, deleted, forgotten, last_forgotten } = counts.get() ?? {};
      return {
        live: Number(live),
        deleted: Number(deleted),
        forgotten: Number(forgotten),
        lastForgotten: Number(last_forgotten ?? 0),
      };
    },
    close: () => database.close(),
  };
}
