import { type CanonicalEvent, freshProfile, HEADER, type ProfileWriteOutcome, TOPIC } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { entryOf, event, START, setUp } from '../harness.ts';
import { WORKSPACE } from '../memory-catalog.ts';
import { RecordedProfiles } from './recorded-profiles.ts';

const OTHER = '00000000-0000-4000-8000-000000000011';
const OTHER_ORGANIZATION = '00000000-0000-4000-8000-000000000012';
const LARGE = 200_000;

/** Two organizations: the writes of the first are charged as those of large profiles. */
function setUpTwo() {
  const profiles = new RecordedProfiles();
  const parts = setUp({}, { profiles });
  parts.catalog.add('workspace.created', OTHER, {
    workspace: { id: OTHER, name: 'w', organization_id: OTHER_ORGANIZATION, region: 'eu', status: 'active' },
    organization: { id: OTHER_ORGANIZATION, name: 'o', regions: ['eu'], notification_email: null },
  });
  profiles.answer = (write): ProfileWriteOutcome => ({
    kind: 'written',
    profile: freshProfile(write, 'a ucid', 0),
    leftOut: [],
    ...(write.org === 1 ? { charge: LARGE } : {}),
  });
  return { ...parts, profiles };
}

/** Accepted events by `<workspace> <user>`. */
function accepted(from: number, ...subjects: readonly (readonly [workspace: string, user: string])[]) {
  return subjects.map(([workspace_id, user_id], nth) => {
    const {
      event: _event,
      properties: _properties,
      ...about
    } = event(`m${from + nth}`, { type: 'identify' });
    // Events of one moment are one write.
    const received_at = new Date(START + from + nth).toISOString();
    const one: Partial<CanonicalEvent> = { ...about, workspace_id, user_id, received_at };
    const headers = {
      [HEADER.type]: 'identify',
      [HEADER.environment]: 'production',
      [HEADER.workspaceId]: workspace_id,
    };
    return { ...entryOf(TOPIC.accepted, from + nth, one, headers), key: `${workspace_id}:${user_id}` };
  });
}

const repeated = (count: number, of: readonly [string, string]) => Array.from({ length: count }, () => of);

describe('one organization with a large profile held the events of all', () => {
  it('its events beyond its share are diverted, in order and with their offsets; those of others are written', async () => {
    const { run, profiles } = setUpTwo();
    const events = accepted(
      0,
      ...repeated(40, [WORKSPACE, 'large']),
      ...repeated(20, [OTHER, 'quick']),
      ...repeated(40, [WORKSPACE, 'large']),
    );
    const emitted = await run('profile', events);
    const written = (org: (n: number) => boolean) => profiles.writes.filter((write) => org(write.org)).length;
    expect(written((org) => org !== 1)).toBe(20);
    const own = written((org) => org === 1);
    expect(own).toBeLessThan(10);
    expect(emitted.map(({ topic, key }) => [topic, key])).toEqual(
      repeated(80 - own, [TOPIC.profilesSlow, `${WORKSPACE}:large`]),
    );
    const offsets = emitted.map(({ headers }) => Number(headers[HEADER.acceptedOffset]));
    expect(offsets).toEqual([...offsets].sort((one, other) => one - other));
    expect(offsets.at(-1)).toBe(99);
  });

  it('the slow queue writes all of them, as the events that they were, and a person stays in order', async () => {
    const { run, profiles, time } = setUpTwo();
    const emitted = await run('profile', accepted(0, ...repeated(30, [WORKSPACE, 'large'])));
    const slow = emitted.map(({ key, value, headers }, offset) => ({
      ...entryOf(TOPIC.profilesSlow, offset, JSON.parse(value), headers),
      key,
    }));
    // The share is free again, and the queue still has older events of the person.
    time.pass(20_000);
    expect(await run('profile', accepted(30, [WORKSPACE, 'large'], [OTHER, 'quick']))).toHaveLength(1);
    const before = profiles.writes.length;
    expect(await run('profile', slow)).toEqual([]);
    expect(profiles.writes.slice(before)).toHaveLength(slow.length);
    expect(profiles.writes.length).toBeGreaterThan(before);
    time.pass(40_000);
    // The event that was diverted meanwhile was not among them.
    await run('profile', slow.slice(0, 1));
    time.pass(40_000);
    expect(await run('profile', accepted(31, [WORKSPACE, 'large']))).toEqual([]);
  });
});
