import { describe, expect, it } from 'vitest';
import type { CanonicalEvent } from '../event/event.ts';
import { eventWrite } from './event-write.ts';

const SCOPE = { org: 7, region: 'eu' };

function event(fields: Partial<CanonicalEvent>): CanonicalEvent {
  return {
    message_id: 'm',
    type: 'identify',
    timestamp: '2020-01-01T00:00:00Z',
    received_at: '2026-01-01T10:00:00.250Z',
    environment: 'production',
    workspace_id: 'w',
    ...fields,
  };
}

function namesOf(fields: Partial<CanonicalEvent>): readonly string[] {
  const { write } = eventWrite(event(fields), { scope: SCOPE, offset: 0 });
  return write?.identities.map(({ type, value }) => `${type}=${value}`) ?? [];
}

describe('the profile write of an event', () => {
  it('has the time at which it happened, and keeps people apart', () => {
    const { write } = eventWrite(event({ user_id: 'u' }), { scope: SCOPE, offset: 0 });
    expect(write).toEqual({
      ...SCOPE,
      identities: [{ type: 'user_id', value: 'u' }],
      attributes: [],
      preferences: [],
      consents: [],
      ts: Date.parse('2020-01-01T00:00:00Z'),
      receivedAt: Date.parse('2026-01-01T10:00:00.250Z'),
      happenedAt: Date.parse('2020-01-01T00:00:00Z'),
      order: 0,
      linking: 'keep-people-apart',
    });
  });

  it.each(['2026-01-01T10:00:00.251Z', '2031-07-01T00:00:00.000Z', '1969-07-20T20:17:40.000Z', 'soon'])(
    'silenced later events by a clock that is %s',
    (timestamp) => {
      const { write } = eventWrite(event({ user_id: 'u', timestamp }), { scope: SCOPE, offset: 0 });
      expect([write?.ts, write?.happenedAt]).toEqual([write?.receivedAt, write?.receivedAt]);
    },
  );

  it('lost a trait, or a group, that has the name of the time of a category', () => {
    const traits = { _ts: 'engraved', plan: 'pro' };
    const paths = (fields: Partial<CanonicalEvent>) =>
      eventWrite(event(fields), { scope: SCOPE, offset: 0 }).write?.attributes.map(({ path }) =>
        path.join('.'),
      );
    expect(paths({ user_id: 'u', traits })).toEqual(['traits._ts_', 'traits.plan']);
    expect(paths({ type: 'group', user_id: 'u', group_id: '_ts' })).toEqual(['groups._ts_']);
  });

  it('could take nothing away: a trait of null was kept as a value', () => {
    const traits = { nickname: null, address: { street: null }, plan: 'free' };
    const of = (nulls?: 'keep') =>
      eventWrite(event({ user_id: 'u', traits }), { scope: SCOPE, offset: 3, nulls }).write?.attributes;
    expect(of()).toEqual([
      { path: ['traits', 'nickname'], value: null, unset: true, order: 3 },
      { path: ['traits', 'address'], value: { street: null }, order: 3 },
      { path: ['traits', 'plan'], value: 'free', order: 3 },
    ]);
    expect(of('keep')?.[0]).toEqual({ path: ['traits', 'nickname'], value: null, order: 3 });
    const group = event({ type: 'group', user_id: 'u', group_id: 'g', traits: { seats: null } });
    expect(eventWrite(group, { scope: SCOPE, offset: 3 }).write?.attributes).toEqual([
      { path: ['groups', 'g', 'seats'], value: null, unset: true, order: 3 },
    ]);
  });

  it('names a person by all identities of an identify event, most specific first', () => {
    const traits = { phone: ' +49 171 ', email: ' Ann@Example.COM ', name: 'Ann' };
    expect(namesOf({ anonymous_id: 'a', user_id: 'u', traits })).toEqual([
      'user_id=u',
      'anonymous_id=a',
      'email=ann@example.com',
      'cellphone=+49 171',
    ]);
  });

  it('takes no identity from the traits of a group: its members would be one person', () => {
    const traits = { email: 'office@example.com', phone: '+49171' };
    expect(namesOf({ type: 'group', user_id: 'u', group_id: 'g', traits })).toEqual(['user_id=u']);
  });

  it('skips events without an identity, and states why', () => {
    const { write, skipped } = eventWrite(
      event({ user_id: 'N/A', anonymous_id: 'a', traits: { email: 17, phone: 'x'.repeat(600) } }),
      { scope: SCOPE, offset: 0 },
    );
    expect(write?.identities).toEqual([{ type: 'anonymous_id', value: 'a' }]);
    expect(skipped).toEqual(['placeholder', 'not_text', 'too_long']);
  });

  it('reads a trait that is null as no identity, and keeps the null where nulls are kept', () => {
    const { write, skipped } = eventWrite(event({ user_id: 'u', traits: { email: null } }), {
      scope: SCOPE,
      offset: 0,
      nulls: 'keep',
    });
    expect(skipped).toEqual([]);
    expect(write?.attributes).toEqual([{ path: ['traits', 'email'], value: null, order: 0 }]);
  });

  it('does not exist where no identity is named', () => {
    expect(eventWrite(event({ user_id: 'guest', traits: { age: 3 } }), { scope: SCOPE, offset: 0 })).toEqual({
      skipped: ['placeholder'],
    });
  });

  it('puts traits under traits, each as it came', () => {
    const traits = { address: { city: 'Ulm', lines: [1, 2] }, ['__proto__']: 1, '': 2 };
    const { write } = eventWrite(event({ user_id: 'u', traits }), { scope: SCOPE, offset: 0 });
    expect(write?.attributes).toEqual([
      { path: ['traits', 'address'], value: { city: 'Ulm', lines: [1, 2] }, order: 0 },
      { path: ['traits', '__proto__'], value: 1, order: 0 },
      { path: ['traits', ''], value: 2, order: 0 },
    ]);
  });

  it('puts the traits of a group below its id, and an empty group where it has none', () => {
    const group = (traits?: { readonly name: string }) =>
      eventWrite(event({ type: 'group', user_id: 'u', group_id: 'g', ...(traits && { traits }) }), {
        scope: SCOPE,
        offset: 0,
      }).write?.attributes;
    expect(group({ name: 'G' })).toEqual([{ path: ['groups', 'g', 'name'], value: 'G', order: 0 }]);
    expect(group()).toEqual([{ path: ['groups', 'g'], value: {}, order: 0 }]);
  });

  it('is an alias’s where the context says who the user was, known as a user or as a device', () => {
    const alias = (fields: Partial<CanonicalEvent>) =>
      eventWrite(event({ context: { alias: { previous_id: ' old ' } }, ...fields }), {
        scope: SCOPE,
        offset: 0,
      }).write;
    const previousIdentity = {
      asUser: { type: 'user_id', value: 'old' },
      asDevice: { type: 'anonymous_id', value: 'old' },
    };
    expect(alias({ user_id: 'u' })).toMatchObject({ previousIdentity });
    expect(alias({ user_id: 'u' })?.identities).toEqual([{ type: 'user_id', value: 'u' }]);
    // No user, the same user, or the event's own device.
    expect(alias({ anonymous_id: 'a' })).not.toHaveProperty('previousIdentity');
    expect(alias({ user_id: 'guest', anonymous_id: 'a' })).not.toHaveProperty('previousIdentity');
    expect(alias({ user_id: 'old' })).not.toHaveProperty('previousIdentity');
    expect(alias({ user_id: 'u', anonymous_id: 'old' })).not.toHaveProperty('previousIdentity');
    expect(alias({ type: 'group', group_id: 'g', user_id: 'u' })).not.toHaveProperty('previousIdentity');
    for (const previous_id of ['null', '', 17, null, { a: 1 }])
      expect(alias({ user_id: 'u', context: { alias: { previous_id } } })).not.toHaveProperty(
        'previousIdentity',
      );
    const own = { type: 'alias', user_id: 'u', previous_id: 'old', context: {} } as const;
    expect(alias(own)).toMatchObject({ previousIdentity });
    expect(alias({ type: 'alias', user_id: 'u' })).not.toHaveProperty('previousIdentity');
    for (const context of [{ alias: 'old' }, { alias: null }, { alias: ['old'] }, {}])
      expect(alias({ user_id: 'u', context })).not.toHaveProperty('previousIdentity');
  });
});
