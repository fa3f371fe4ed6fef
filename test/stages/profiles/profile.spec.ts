import { type CanonicalEvent, HEADER, type ProfileWriteOutcome, TOPIC, Unavailable } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { Told } from '../../helpers/recording-logger.ts';
import { entryOf, event, setUp } from '../harness.ts';
import { RecordedProfiles } from './recorded-profiles.ts';

/** Accepted events as the log dispatches them, each keyed by its subject. */
function accepted(...events: readonly Partial<CanonicalEvent>[]) {
  return events.map((fields, offset) => {
    const { event: _event, properties: _properties, ...about } = event(`m${offset}`, { type: 'identify' });
    const one = { ...about, ...fields };
    const key = `w:${one.user_id ?? one.anonymous_id}`;
    const headers = { [HEADER.type]: one.type, [HEADER.environment]: one.environment };
    return { ...entryOf(TOPIC.accepted, offset, one, headers), key };
  });
}
const at = (second: number) => `2026-01-01T10:00:0${second}.000Z`;

function setUpProfiles(options: Parameters<typeof setUp>[0] = {}) {
  const profiles = new RecordedProfiles();
  const { logger, metrics, ...told } = new Told();
  return { profiles, ...told, ...setUp(options, { profiles, logger, metrics }) };
}

describe('profile', () => {
  it('writes the data of identify and group events, in the organization and region of their workspace', async () => {
    const { profiles, run, counts } = setUpProfiles();
    await run(
      'profile',
      accepted(
        { user_id: 'u1', anonymous_id: 'a1', traits: { email: 'Ann@Example.com', age: 30 } },
        { type: 'group', user_id: 'u2', group_id: 'g', traits: { name: 'G', email: 'g@example.com' } },
        { type: 'track', user_id: 'u3' },
        { type: 'page', user_id: 'u4' },
      ),
    );
    const received = Date.parse(at(0));
    const common = {
      org: 1,
      region: 'eu',
      linking: 'keep-people-apart',
      ts: received,
      receivedAt: received,
      happenedAt: received,
    };
    expect(profiles.writes).toMatchObject([
      {
        ...common,
        identities: [
          { type: 'user_id', value: 'u1' },
          { type: 'anonymous_id', value: 'a1' },
          { type: 'email', value: 'ann@example.com' },
        ],
        attributes: [
          { path: ['traits', 'email'], value: 'Ann@Example.com' },
          { path: ['traits', 'age'], value: 30 },
        ],
      },
      {
        ...common,
        identities: [{ type: 'user_id', value: 'u2' }],
        attributes: [
          { path: ['groups', 'g', 'name'], value: 'G' },
          { path: ['groups', 'g', 'email'], value: 'g@example.com' },
        ],
      },
    ]);
    expect(counts).toEqual({ 'tributary_profile_events_total{outcome=written}': 2 });
  });

  it('kept a null trait as a value, so that traits could not be removed', async () => {
    for (const profileNulls of ['unset', 'keep'] as const) {
      const { profiles, run } = setUpProfiles({ profileNulls });
      await run('profile', accepted({ user_id: 'u1', traits: { title: null } }));
      const [attribute] = profiles.writes.flatMap(({ attributes }) => attributes);
      expect(attribute).toMatchObject({ path: ['traits', 'title'], value: null });
      expect(attribute?.unset).toBe(profileNulls === 'unset' ? true : undefined);
    }
  });

  it('ignores events of the environment development with ids of customers, and counts them', async () => {
    const { profiles, run, counts, catalog } = setUpProfiles();
    const environment = 'development';
    const ahead = { [HEADER.catalogPosition]: String(catalog.position + 1) };
    const tests = accepted(
      { user_id: '1', environment, traits: { name: 'Test' } },
      { type: 'group', user_id: '1', environment, group_id: 'g' },
      { type: 'track', user_id: '1', environment },
    ).map((entry) => ({ ...entry, headers: { ...entry.headers, ...ahead } }));
    expect(await run('profile', tests)).toEqual([]);
    expect(profiles.writes).toEqual([]);
    const [test] = accepted({ user_id: '1', environment, traits: { name: 'Test' } });
    const [real] = accepted({ user_id: '1', traits: { name: 'Ann' } });
    if (test === undefined || real === undefined) throw new Error('two entries were made');
    await run('profile', [real, test]);
    expect(profiles.writes).toMatchObject([{ attributes: [{ path: ['traits', 'name'], value: 'Ann' }] }]);
    expect(counts).toEqual({
      'tributary_profile_events_total{outcome=not_production}': 3,
      'tributary_profile_events_total{outcome=written}': 1,
    });
  });

  it('writes one subject in order, and several subjects concurrently up to a limit', async () => {
    const { profiles, run } = setUpProfiles({ profileWriters: 3 });
    const underWay = new Set<string>();
    profiles.answer = async ({ identities }) => {
      const subject = identities[0]?.value ?? '';
      expect(underWay.has(subject)).toBe(false);
      underWay.add(subject);
      await new Promise((resolve) => setImmediate(resolve));
      underWay.delete(subject);
      return { kind: 'refused', reason: 'nothing_left' };
    };
    const rounds = [1, 2, 3].flatMap((second) =>
      ['a', 'b', 'c', 'd', 'e'].map((user_id) => ({
        user_id,
        timestamp: at(second),
        received_at: at(second),
      })),
    );
    await run('profile', accepted(...rounds));
    expect(profiles.most).toBe(3);
    expect(profiles.writes).toHaveLength(15);
    for (const subject of ['a', 'b', 'c', 'd', 'e']) {
      const times = profiles.writes
        .filter(({ identities }) => identities[0]?.value === subject)
        .map(({ ts }) => ts);
      expect(times).toEqual([at(1), at(2), at(3)].map((time) => Date.parse(time)));
    }
  });

  it('writes the events of a subject in one batch at once', async () => {
    const { profiles, run, counts } = setUpProfiles();
    await run(
      'profile',
      accepted(
        { traits: { plan: 'free' } },
        { type: 'group', group_id: 'g' },
        { traits: { plan: 'pro' }, received_at: at(1) },
      ),
    );
    expect(profiles.writes).toMatchObject([
      {
        attributes: [
          { path: ['traits', 'plan'], value: 'free' },
          { path: ['groups', 'g'], value: {} },
        ],
      },
      { attributes: [{ path: ['traits', 'plan'], value: 'pro' }] },
    ]);
    expect(counts).toEqual({ 'tributary_profile_events_total{outcome=written}': 3 });
  });

  it('writes events one by one that are refused together', async () => {
    const { profiles, run, counts } = setUpProfiles();
    const refused: ProfileWriteOutcome = { kind: 'refused', reason: 'too_large' };
    const { answer } = profiles;
    profiles.answer = (write) =>
      write.attributes.some(({ value }) => value === 'large') ? refused : answer(write);
    await run('profile', accepted({ traits: { x: 'small' } }, { traits: { x: 'large' } }));
    expect(profiles.writes.map(({ attributes }) => attributes.length)).toEqual([2, 1, 1]);
    expect(counts).toEqual({
      'tributary_profile_events_total{outcome=written}': 1,
      'tributary_profile_events_total{outcome=too_large}': 1,
    });
  });

  it('counts omitted data and invalid identities, and logs them without values', async () => {
    const { profiles, run, counts, lines } = setUpProfiles();
    const { answer } = profiles;
    profiles.answer = async (write) => {
      const outcome = await answer(write);
      if (outcome.kind === 'refused') return outcome;
      const leftOut = write.identities.slice(1).map((identity, index) => ({
        identity,
        why: (['another_person', 'deleted', 'too_many'] as const)[index] ?? 'deleted',
      }));
      return { ...outcome, leftOut };
    };
    await run(
      'profile',
      accepted(
        { user_id: 'ann-1', anonymous_id: 'dev-1', traits: { email: 'ann@example.com', phone: '+49171' } },
        { user_id: 'ann-2', anonymous_id: 'Undefined', traits: { email: ' ', phone: 49171 } },
        { user_id: 'unknown', traits: { secret: 'x' } },
      ),
    );
    expect(counts).toEqual({
      'tributary_profile_events_total{outcome=written}': 2,
      'tributary_profile_events_total{outcome=nobody}': 1,
      'tributary_profile_identities_left_out_total{reason=another_person,type=anonymous_id}': 1,
      'tributary_profile_identities_left_out_total{reason=deleted,type=email}': 1,
      'tributary_profile_identities_left_out_total{reason=too_many,type=cellphone}': 1,
      'tributary_profile_identities_skipped_total{reason=placeholder}': 3,
      'tributary_profile_identities_skipped_total{reason=not_text}': 1,
    });
    expect(lines).toHaveLength(3);
    expect(lines.join('\n')).not.toMatch(/ann|dev-1|49171|secret/);
    expect(lines[2]).toMatch(/^warn .*"messages":\["m0"\]/);
  });

  it('told that too many users share an identity where a merge would be too large: that is one entry of its own, once', async () => {
    const { profiles, run } = setUpProfiles();
    const { answer } = profiles;
    profiles.answer = async (write) => ({
      ...(await answer(write)),
      leftOut: write.identities
        .slice(1)
        .map((identity) => ({ identity, why: 'too_large', owner: 'its owner' })),
    });
    const emitted = [];
    for (const second of [0, 1])
      emitted.push(
        ...(await run('profile', accepted({ user_id: 'u', anonymous_id: 'a', received_at: at(second) }))),
      );
    expect(emitted.map(({ value }) => JSON.parse(value))).toMatchObject([
      { name: 'not_extended', excess: { bound: 'profile_merge' }, outcome: { ucids: ['its owner'] } },
    ]);
  });

  it('waits while the store is unavailable, starts nothing more, and leaves nothing in flight', async () => {
    const { profiles, run } = setUpProfiles({ profileWriters: 2 });
    profiles.answer = () => {
      throw new Unavailable('nobody there');
    };
    const entries = accepted(...['a', 'b', 'c', 'd'].map((user_id) => ({ user_id })));
    await expect(run('profile', entries)).rejects.toMatchObject({ code: 'unavailable' });
    expect(profiles.writes).toHaveLength(2);
    expect(profiles.underWay).toBe(0);
  });

  it('starts nothing more once the partition is lost', async () => {
    const { profiles, run } = setUpProfiles({ profileWriters: 1 });
    const lost = new AbortController();
    const { answer } = profiles;
    profiles.answer = (write) => {
      lost.abort(new Error('lost'));
      return answer(write);
    };
    const entries = accepted(...['a', 'b', 'c'].map((user_id) => ({ user_id })));
    await expect(run('profile', entries, lost.signal)).rejects.toThrow('lost');
    expect(profiles.writes).toHaveLength(1);
  });

  it('waits for the catalog only for events that it writes', async () => {
    const { run, catalog } = setUpProfiles();
    const ahead = { [HEADER.catalogPosition]: String(catalog.position + 1) };
    const [track, identify] = accepted({ type: 'track' }, {}).map((entry) => ({
      ...entry,
      headers: { ...entry.headers, ...ahead },
    }));
    if (track === undefined || identify === undefined) throw new Error('two entries were made');
    expect(await run('profile', [track])).toEqual([]);
    await expect(run('profile', [identify])).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('writes nothing for an unknown workspace', async () => {
    const { profiles, run, counts } = setUpProfiles();
    await run('profile', accepted({ workspace_id: '00000000-0000-4000-8000-00000000000f' }));
    expect(profiles.writes).toEqual([]);
    expect(counts).toEqual({ 'tributary_profile_events_total{outcome=no_workspace}': 1 });
  });

  it('lets the log dead-letter an entry that is not an event', async () => {
    const { run } = setUpProfiles();
    const headers = { [HEADER.type]: 'identify', [HEADER.environment]: 'production' };
    const bad = entryOf(TOPIC.accepted, 0, { type: 'identify' }, headers);
    await expect(run('profile', [bad])).rejects.toMatchObject({ code: 'invalid_input' });
  });
});
