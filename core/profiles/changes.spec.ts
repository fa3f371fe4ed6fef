import { describe, expect, it } from 'vitest';
import { organizationScope, recordBytes } from '../funnel/bytes.ts';
import { summedCountsIn } from '../funnel/counts.ts';
import { type EventLog, MAX_VALUE_BYTES, type NewEntry } from '../log/event-log.ts';
import { TOPIC } from '../log/topics.ts';
import { Unavailable } from '../primitives/errors.ts';
import { freshProfile } from './merge.ts';
import type { Profile } from './profile.ts';
import { publishProfileChanges, recordOf } from './record.ts';

const PROFILE: Profile = {
  ...freshProfile({ org: 7, region: 'eu' }, 'u1', 1_000),
  version: 3,
  identities: [{ type: 'user_id', value: 'ann', ts: 1_000 }],
};
const CHANGE = { org: 7, region: 'eu', ucid: 'u1', version: 3, at: 1_000, linked: [] } as const;

function published(failures: (Error | undefined)[] = [], overBudget?: number) {
  const appended: { readonly topic: string; readonly entries: readonly NewEntry[] }[] = [];
  const counts: NewEntry[] = [];
  const append: EventLog['append'] = async (topic, entries) => {
    if (topic !== TOPIC.funnelCounts) {
      appended.push({ topic, entries });
      return [];
    }
    const failure = failures.shift();
    if (failure !== undefined) throw failure;
    counts.push(...entries);
    return [];
  };
  const publish = publishProfileChanges({ append }, undefined, (org) =>
    org === overBudget
      ? { action: 'refuse', budget: 'disk_share', used: 2, limit: 1, retryAfterMs: 60_000 }
      : undefined,
  );
  const values = () => appended.flatMap(({ entries }) => entries.map(({ value }) => JSON.parse(value)));
  const bytes = () => summedCountsIn(counts.map((entry) => ({ ...entry, timestamp: 0 }))).bytes;
  return { publish, appended, values, bytes };
}

describe('the records of profile changes on the log', () => {
  it('have the fields of the profile API and the ucid as key, in order and in one append', async () => {
    const { publish, appended, values } = published();
    await publish([
      { ...CHANGE, kind: 'written', profile: PROFILE },
      { ...CHANGE, kind: 'merged', version: 4, profile: PROFILE, linked: ['u2'] },
      { ...CHANGE, kind: 'deleted', version: 5, linked: ['u2'] },
    ]);
    expect(appended.map(({ topic }) => topic)).toEqual(['profiles.changes']);
    expect(appended[0]?.entries.map(({ key }) => key)).toEqual(['u1', 'u1', 'u1']);
    const told = { orgId: 7, region: 'eu', ucid: 'u1', at: 1_000 };
    expect(values()).toEqual([
      { ...told, kind: 'written', version: 3, linked: [], record: recordOf(PROFILE) },
      { ...told, kind: 'merged', version: 4, linked: ['u2'], record: recordOf(PROFILE) },
      { ...told, kind: 'deleted', version: 5, linked: ['u2'] },
    ]);
  });

  it('stopped permanently at a profile whose record is larger than an entry of the log', async () => {
    const { publish, appended, values } = published();
    const value = '\u0001'.repeat(MAX_VALUE_BYTES / 6); // six bytes each as JSON
    const profile = { ...PROFILE, attributes: [{ path: ['traits', 'x'], value, ts: 1 }] };
    await publish([{ ...CHANGE, kind: 'written', profile }]);
    expect(Buffer.byteLength(appended[0]?.entries[0]?.value ?? '')).toBeLessThan(MAX_VALUE_BYTES);
    expect(values()).toMatchObject([{ kind: 'written', ucid: 'u1', version: 3, too_large: true }]);
    expect(values()[0]).not.toHaveProperty('record');
  });

  it('filled a disk by small events to large profiles: over a budget of bytes they are published without the record', async () => {
    const { publish, appended, values } = published([], 7);
    const attributes = [{ path: ['traits', 'x'], value: 'a'.repeat(20_000), ts: 1 }];
    const change = { ...CHANGE, kind: 'written', profile: { ...PROFILE, attributes } } as const;
    await publish([change, { ...change, org: 9 }, { ...CHANGE, kind: 'deleted', version: 4 }]);
    expect(values()).toMatchObject([
      { kind: 'written', orgId: 7, ucid: 'u1', version: 3, too_large: true },
      { orgId: 9, record: recordOf(change.profile) },
      { kind: 'deleted', version: 4 },
    ]);
    expect(values()[2]).not.toHaveProperty('too_large');
    expect(recordBytes(appended[0]?.entries[0] ?? { key: '', value: '', headers: {} })).toBeLessThan(500);
  });

  it('filled a disk unseen: their bytes are counted for the organization, once where counting failed before', async () => {
    const { publish, appended, bytes } = published([new Unavailable('the log does not answer')]);
    const change = { ...CHANGE, kind: 'written', profile: PROFILE } as const;
    await publish([change, { ...change, org: 9, version: 4 }]);
    expect(bytes()).toEqual([]);
    await publish([{ ...change, version: 5 }]);
    const entries = appended.flatMap((each) => each.entries);
    expect(appended).toHaveLength(2);
    const [first, other, last] = entries.map(recordBytes);
    expect(bytes()).toEqual([
      { scope: organizationScope(7), hour: 0, received: 0, written: (first ?? 0) + (last ?? 0) },
      { scope: organizationScope(9), hour: 0, received: 0, written: other },
    ]);
  });
});
