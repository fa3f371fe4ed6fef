import { type EventLog, MAX_VALUE_BYTES, type NewEntry } from '../log/event-log.ts';
import { TOPIC } from '../log/topics.ts';
import type { Profile } from './profile.ts';
import type { ProfileChange, PublishProfileChanges } from './profile-store.ts';
import { type ProfileRecord, recordOf } from './record.ts';

/** What a committed write tells: `before` is the profile as it was, version 0 when it was not there. */
export function changeOf(before: Profile, after: Profile): ProfileChange {
  const known = new Set(before.linked);
  const linked = after.linked.filter((ucid) => !known.has(ucid));
  const { org, region, ucid, version, updated_ts: at } = after;
  const kind = linked.length > 0 ? 'merged' : 'written';
  return { kind, org, region, ucid, version, at, profile: after, linked };
}

/** What a deletion tells: no more than the names that led to the record. */
export function deletionOf({ org, region, ucid, version, linked }: Profile, now: number): ProfileChange {
  return { kind: 'deleted', org, region, ucid, version: version + 1, at: now, linked };
}

/** What `profiles.changes` holds: a change, and the profile after it in the words of the profile API. */
export interface ProfileChangeValue {
  readonly kind: ProfileChange['kind'];
  readonly ucid: string;
  readonly orgId: number;
  readonly region: string;
  /** Grows with every change of this ucid. */
  readonly version: number;
  /** Epoch ms. */
  readonly at: number;
  /** Ucids that lead to this one from now on; of a deletion those that lead nowhere any more. */
  readonly linked: readonly string[];
  /** Absent when the profile is gone, or too large for one entry of the log. */
  readonly record?: ProfileRecord;
  readonly too_large?: true;
}

/** Puts changes on `profiles.changes`, in order, under the profile's ucid. */
export function publishProfileChanges(log: Pick<EventLog, 'append'>): PublishProfileChanges {
  return async (changes) => {
    await log.append(TOPIC.profileChanges, changes.map(entryOf));
  };
}

function entryOf(change: ProfileChange): NewEntry {
  const { kind, ucid, org, region, version, at, linked, profile } = change;
  const told: ProfileChangeValue = { kind, ucid, orgId: org, region, version, at, linked };
  const value = JSON.stringify(profile === undefined ? told : { ...told, record: recordOf(profile) });
  const fits = Buffer.byteLength(value) <= MAX_VALUE_BYTES;
  return { key: ucid, value: fits ? value : JSON.stringify({ ...told, too_large: true }), headers: {} };
}
