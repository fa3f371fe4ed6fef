import { describe, expect, it } from 'vitest';
import { eventWrite } from './event-write.ts';
import { identityKey } from './identity/identity.ts';
import { withoutOlderSpellings } from './merge.ts';
import { recordOf } from './record.ts';
import { identity, profile, SCOPE, World, write } from './world.fixture.ts';

const OLD = 'li@bl\u00e5.example';
const NEW = 'li@xn--bl-zia.example';

/** An identify event with this address. */
const eventOf = (email: string) =>
  eventWrite(
    {
      message_id: 'm',
      type: 'identify',
      anonymous_id: 'd',
      traits: { email },
      timestamp: '2026-01-01T00:00:00.000Z',
      received_at: '2026-01-01T00:00:00.000Z',
      environment: 'production',
      workspace_id: 'w',
    },
    { scope: SCOPE, offset: 1 },
  ).write;

describe('an address that is stored in an older spelling', () => {
  it('was another person to an event', () => {
    const world = new World();
    world.upsert(write([`email:${OLD}`]));
    const event = eventOf('LI@BL\u00c5.example');
    expect(event).toMatchObject({ identities: [{ type: 'anonymous_id' }, { value: NEW }] });
    if (event !== undefined) world.upsert(event);
    expect(world.profiles).toHaveLength(1);
    expect(world.ownerOf(identity(`email:${NEW}`))).toBe(world.ownerOf(identity('anonymous_id:d')));
  });

  it('stays with its person, and remembers its deletion: no event in another spelling gets or restores it', () => {
    const world = new World();
    const linking = { linking: 'keep-people-apart' } as const;
    world.upsert(write([`email:${OLD}`, 'user_id:li']));
    const spelled = [{ of: identity(`email:${NEW}`), identity: identity(`email:${OLD}`) }];
    const event = write(['user_id:other', `email:${NEW}`], { ...linking, olderSpellings: spelled });
    expect(world.upsert(event)).toMatchObject({
      leftOut: [{ identity: { value: OLD } }, { identity: { value: NEW }, why: 'another_person' }],
    });
    expect(world.ownerOf(identity(`email:${NEW}`))).toBeUndefined();
    const gone = new World(new Map([[identityKey(identity(`email:${OLD}`)), 9]]));
    const late = { ...linking, olderSpellings: spelled, happenedAt: 5 };
    expect(gone.upsert(write([`email:${NEW}`], late))).toEqual({ kind: 'refused', reason: 'nothing_left' });
    expect(gone.upsert(write(['user_id:u', `email:${NEW}`], late))).toMatchObject({
      leftOut: [{ why: 'deleted' }, { why: 'deleted' }],
    });
  });

  it('is looked up by no event whose address has one spelling', () => {
    expect(eventOf('Li@blue.example')).not.toHaveProperty('olderSpellings');
  });

  it('is shown once, with the newest of its times, as are numbers', () => {
    const held = [
      { type: 'cellphone', value: '+46 70 123 45 67', ts: 1 },
      { type: 'cellphone', value: '+46701234567', ts: 2 },
      { type: 'cellphone', value: '070-123 45 67', ts: 4 },
      { type: 'email', value: 'eve@blue.example', ts: 3 },
      { type: 'email', value: OLD, ts: 9 },
      { type: 'email', value: NEW, ts: 5 },
      { type: 'user_id', value: OLD, ts: 1 },
    ];
    expect(recordOf(profile('1', { identities: held })).ids).toEqual({
      cellphone: [{ cellphone: '+46701234567', _ts: '4' }],
      email: [
        { email: 'eve@blue.example', _ts: '3' },
        { email: NEW, _ts: '9' },
      ],
      user_id: [{ user_id: OLD, _ts: '1' }],
    });
    const alone = held.filter(({ value }) => value !== NEW && value !== '+46701234567');
    expect(withoutOlderSpellings(alone)).toEqual(alone);
  });
});
