import { BytesTally, organizationScope, recordBytes } from '../funnel/bytes.ts';
import { countWritten } from '../funnel/count-written.ts';
import { type EventLog, MAX_VALUE_BYTES, type NewEntry } from '../log/event-log.ts';
import type { Counting } from '../log/stage.ts';
import { TOPIC } from '../log/topics.ts';
import type { Profile } from './profile.ts';
import type { ProfileChange, PublishProfileChanges } from './profile-store.ts';
import { type ProfileRecord, recordOf } from './record.ts';

/** The change of a committed write; `before` has version 0 when the profile is new. */
export function changeOf(before: Profile, after: Profile): ProfileChange {
  const known = new Set(before.linked);
  const linked = after.linked.filter((ucid) => !known.has(ucid));
  const { org, region, ucid, version, updated_ts: at } = after;
  const kind = linked.length > 0 ? 'merged' : 'written';
  return { kind, org, region, ucid, version, at, profile: after, linked };
}

/** The change of a deletion: only the ucids that led to the profile. */
export function deletionOf({ org, region, ucid, version, linked }: Profile, now: number): ProfileChange {
  return { kind: 'deleted', org, region, ucid, version: version + 1, at: now, linked };
}

/** The value of a record on `profiles.changes`: a change, and the profile after it as in the profile API. */
export interface ProfileChangeValue {
  readonly kind: ProfileChange['kind'];
  readonly ucid: string;
  readonly orgId: number;
  readonly region: string;
  /** Grows with every change of this ucid. */
  readonly version: number;
  /** Epoch ms. */
  readonly at: number;
  /** Ucids that now lead to this one; of a deletion, those that lead nowhere any more. */
  readonly linked: readonly string[];
  /** Absent after a deletion, or when too large for one entry of the log. */
  readonly record?: ProfileRecord;
  readonly too_large?: true;
}

/**
 * Appends changes to `profiles.changes`, in order, with the profile's ucid as key, then counts their bytes, by
 * organization.
 */
export function publishProfileChanges(
  log: Pick<EventLog, 'append'>,
  isCounting: () => Counting = () => true,
): PublishProfileChanges {
  const count = countWritten(log, isCounting);
  return async (changes) => {
    const entries = changes.map(entryOf);
    await log.append(TOPIC.profileChanges, entries);
    const bytes = new BytesTally();
    for (const [at, { org }] of changes.entries()) {
      const entry = entries[at];
      if (entry !== undefined) bytes.written(organizationScope(org), recordBytes(entry));
    }
    await count(bytes);
  };
}

function entryOf(change: ProfileChange): NewEntry {
  const { kind, ucid, org, region, version, at, linked, profile } = change;
  const published: ProfileChangeValue = { kind, ucid, orgId: org, region, version, at, linked };
  const value = JSON.stringify(
    profile === undefined ? published : { ...published, record: recordOf(profile) },
  );
  const fits = Buffer.byteLength(value) <= MAX_VALUE_BYTES;
  return { key: ucid, value: fits ? value : JSON.stringify({ ...published, too_large: true }), headers: {} };
}
