import { describe, expect, it } from 'vitest';
import { correctedTime, eventItem } from './event-item.ts';

const RECEIVED = '2026-03-01T12:00:10.000Z';
const item = (call: unknown, frame = {}) => eventItem(call, frame, RECEIVED);

describe('a call of the Segment API', () => {
  it('keeps the context field of a producer that Tributary uses too', () => {
    expect(
      item({ type: 'alias', userId: 'u', channel: 'web', context: { segment: 1, alias: 'x', os: 'y' } }),
    ).toEqual({
      type: 'alias',
      user_id: 'u',
      context: { os: 'y', alias: 'x', segment: { channel: 'web', context: { segment: 1 } } },
    });
  });

  it('has its integrations over those of its batch; what is no object is kept apart', () => {
    const track = { type: 'track', userId: 'u', event: 'E' };
    const ours = { type: 'track', user_id: 'u', event: 'E' };
    expect(item({ ...track, integrations: [] })).toEqual({ ...ours, integrations: {} });
    expect(item({ ...track, integrations: true }, { integrations: { B: false } })).toEqual({
      ...ours,
      integrations: { B: false },
      context: {
        segment: { integrations: true },
        tributary: { changed: [{ path: '/integrations', change: 'moved' }] },
      },
    });
  });

  it('was refused for traits in its context that are no object', () => {
    for (const traits of ['x', 7, [1], true, JSON.rawJSON('8172635445362718291')]) {
      const context = { traits };
      const call = { type: 'identify', userId: 'u', context };
      expect(item(call)).toEqual({ type: 'identify', user_id: 'u', context });
      expect(item({ ...call, traits: {} })).toEqual({ type: 'identify', user_id: 'u', traits: {}, context });
    }
  });

  it('has its time by the server’s clock where it has a sent-at time, and keeps both as received', () => {
    const times = { timestamp: '2020-01-01T00:00:00Z', sentAt: '2020-01-01T00:00:04Z' };
    expect(item({ type: 'track', userId: 'u', event: 'E', ...times })).toMatchObject({
      timestamp: '2026-03-01T12:00:06.000Z',
      context: { segment: times },
    });
    expect(
      item({ type: 'track', userId: 'u', event: 'E', timestamp: times.timestamp }, { sentAt: times.sentAt }),
    ).toMatchObject({ timestamp: '2026-03-01T12:00:06.000Z', context: { segment: times } });
  });

  it('has the time of originalTimestamp where that is all there is', () => {
    const originalTimestamp = '2020-01-01T00:00:00.000Z';
    expect(item({ type: 'track', userId: 'u', event: 'E', originalTimestamp })).toMatchObject({
      timestamp: originalTimestamp,
      context: { segment: { originalTimestamp } },
    });
  });

  describe('of an archive', () => {
    const past = {
      originalTimestamp: '2015-02-23T22:28:55.387Z',
      sentAt: '2015-02-23T22:28:55.111Z',
      receivedAt: '2015-02-23T22:29:01.500Z',
      timestamp: '2015-02-23T22:29:01.776Z',
    };
    const track = { type: 'track', userId: 'u', event: 'E' };

    it.each([
      ['all four times', past, past.timestamp],
      ['no receivedAt', { ...past, receivedAt: undefined }, past.timestamp],
      ['no originalTimestamp', { ...past, originalTimestamp: undefined }, past.timestamp],
      ['a receivedAt that is null', { ...past, receivedAt: null }, past.timestamp],
      ['no timestamp', { ...past, timestamp: undefined }, '2015-02-23T22:29:01.776Z'],
      ['an unreadable timestamp', { ...past, timestamp: '11:12' }, '2015-02-23T22:29:01.776Z'],
    ])('was stored with the current time: its corrected timestamp counts, with %s', (_, times, timestamp) => {
      expect(item({ ...track, ...times })).toMatchObject({ timestamp });
      expect(
        item({ ...track, ...times, sentAt: undefined }, { sentAt: '2026-03-01T12:00:09Z' }),
      ).toMatchObject({
        timestamp: expect.stringMatching(/^2015-02-23T22:2/),
      });
    });

    it('has the times as they were sent in context.segment, and lists those that cannot be read', () => {
      const { timestamp: _, receivedAt, ...others } = past;
      expect(item({ ...track, ...others, receivedAt, originalTimestamp: 'yesterday' })).toMatchObject({
        context: {
          segment: { sentAt: past.sentAt, receivedAt, originalTimestamp: 'yesterday' },
          ...changed('time_unreadable', '/originalTimestamp'),
        },
      });
      expect(item({ ...track, ...past })).toMatchObject({
        context: { segment: { originalTimestamp: past.originalTimestamp, receivedAt } },
      });
    });
  });

  it('has the context and integrations of its batch below its own', () => {
    const frame = { context: { ip: '1', os: 'a' }, integrations: { All: false, X: true } };
    expect(
      item(
        { type: 'track', userId: 'u', event: 'E', context: { os: 'b' }, integrations: { X: false } },
        frame,
      ),
    ).toEqual({
      type: 'track',
      user_id: 'u',
      event: 'E',
      integrations: { All: false, X: false },
      context: { ip: '1', os: 'b' },
    });
  });

  it('keeps the fields of its batch apart from its own', () => {
    const frame = { others: { messageId: 'b', channel: 'server', timestamp: '2026-01-01T00:00:00Z' } };
    const call = { type: 'track', userId: 'u', messageId: 'm', event: 'E' };
    expect(item({ ...call, channel: 'web' }, frame)).toEqual({
      type: 'track',
      user_id: 'u',
      message_id: 'm',
      event: 'E',
      context: { segment: { channel: 'web', batch: frame.others } },
    });
    expect(item({ ...call, batch: 7 }, frame)).toMatchObject({
      context: { segment: { batch: { ...frame.others, batch: 7 } } },
    });
    expect(item({ ...call, batch: 7 })).toMatchObject({ context: { segment: { batch: 7 } } });
  });

  it('reads user_id and anonymous_id where userId and anonymousId are absent', () => {
    const ids = { user_id: 17, anonymous_id: 'd' };
    expect(item({ type: 'page', ...ids })).toEqual({ type: 'page', user_id: '17', anonymous_id: 'd' });
    expect(item({ type: 'page', userId: 'u', ...ids })).toEqual({
      type: 'page',
      user_id: 'u',
      context: { segment: ids },
    });
  });

  it.each([
    ['a whole number as an id', { userId: 17 }, { user_id: '17' }],
    ['an empty text as an id', { userId: '', anonymousId: 'a' }, { anonymous_id: 'a' }],
    ['an empty list as an object', { userId: 'u', properties: [] }, { user_id: 'u', properties: {} }],
    ['null', { userId: 'u', context: null, category: null }, { user_id: 'u' }],
  ])('may have %s, as some SDKs write it', (_, fields, ours) => {
    expect(item({ type: 'track', event: 'E', ...fields })).toEqual({ type: 'track', event: 'E', ...ours });
  });

  it.each([
    ['no object', 'text'],
    ['of no type that is known', { type: 'delete', userId: 'u' }],
    ['of a type that objects have by themselves', { type: 'constructor', userId: 'u' }],
  ])('is passed on unchanged, to be refused, when it is %s', (_, call) => {
    expect(item(call)).toBe(call);
  });

  const changed = (change: string, path: string) => ({ tributary: { changed: [{ path, change }] } });

  it.each([
    ['a number', { userId: 2 ** 53 }, { user_id: '9007199254740992' }],
    ['a fraction', { userId: 1.5 }, { user_id: '1.5' }],
    ['true', { userId: true }, { user_id: 'true' }],
    ['an object', { userId: { id: 7 } }, { user_id: '{"id":7}' }],
  ])('has %s as an id as text, and states so', (_, fields, ours) => {
    expect(item({ type: 'track', event: 'E', ...fields })).toEqual({
      type: 'track',
      event: 'E',
      ...ours,
      context: changed('as_text', '/userId'),
    });
  });

  it.each([
    ['track', 'properties', [1]],
    ['page', 'properties', 'x'],
    ['identify', 'traits', 7],
    ['group', 'traits', true],
    ['screen', 'context', ['x']],
  ] as const)('of type %s keeps %s that are no object in context.segment', (type, name, value) => {
    const taken = item({ type, userId: 'u', event: 'E', groupId: 'g', [name]: value });
    expect(taken).not.toHaveProperty(name === 'context' ? 'properties' : name);
    expect(taken).toMatchObject({ context: { segment: { [name]: value }, ...changed('moved', `/${name}`) } });
  });

  it('has the original time where its own cannot be read', () => {
    const originalTimestamp = '2022-03-04T05:06:07+01:00';
    expect(item({ type: 'page', userId: 'u', timestamp: 'soon', originalTimestamp })).toMatchObject({
      timestamp: '2022-03-04T04:06:07.000Z',
      context: { segment: { timestamp: 'soon', originalTimestamp } },
    });
  });

  it('with a messageId that is too long has an id made of it, always the same', () => {
    const messageId = 'm'.repeat(101);
    const taken = item({ type: 'page', userId: 'u', messageId });
    expect(taken).toMatchObject({
      message_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      context: { segment: { messageId }, ...changed('id_shortened', '/messageId') },
    });
    expect(item({ type: 'page', userId: 'u', messageId })).toEqual(taken);
  });

  it('states the changes made on reading beside fields of a producer in the same place', () => {
    const before = [{ path: '/properties/a', change: 'replaced' }] as const;
    const call = { type: 'track', userId: 'u', event: 'E', context: { tributary: 'mine' } };
    expect(eventItem(call, {}, RECEIVED, before)).toMatchObject({
      context: { tributary: { changed: before, context: { tributary: 'mine' } } },
    });
  });
});

describe('the time of an event by the server’s clock', () => {
  it.each([
    [
      'is as long before the reception as it was before the sending',
      '2020-01-01T00:00:00Z',
      '2020-01-01T00:00:04Z',
      '2026-03-01T12:00:06.000Z',
    ],
    [
      'also where the client’s clock is ahead',
      '2030-01-01T00:00:00.500Z',
      '2030-01-01T00:00:01.000Z',
      '2026-03-01T12:00:09.500Z',
    ],
    [
      'also in other zones, and with nanoseconds',
      '2020-01-01T01:00:00.123456789+01:00',
      '2020-01-01T00:00:01.123Z',
      '2026-03-01T12:00:09.000Z',
    ],
    [
      'also of an event that lies ahead',
      '2020-01-01T00:00:05Z',
      '2020-01-01T00:00:00Z',
      '2026-03-01T12:00:15.000Z',
    ],
    [
      'also with an offset of hours, ten digits of a second and a leap second',
      '2016-12-31T23:59:60.1234567891Z',
      '2017-01-01T01:00:04.123+01',
      '2026-03-01T12:00:06.000Z',
    ],
  ])('%s', (_, original, sentAt, corrected) => {
    expect(correctedTime(original, sentAt, RECEIVED)).toBe(corrected);
  });

  it.each([
    ['the client did not say when it sent it', '2020-01-01T00:00:00Z', undefined],
    ['it did not say when it happened', undefined, '2020-01-01T00:00:00Z'],
    ['a time has no zone', '2020-01-01T00:00:00', '2020-01-01T00:00:00Z'],
    ['a time is a number', 1_577_836_800_000, '2020-01-01T00:00:00Z'],
    ['a time is none', '2020-13-01T00:00:00Z', '2020-01-01T00:00:00Z'],
    ['a day is in no calendar', '2025-11-30T00:00:00Z', '2025-11-31T00:00:00Z'],
    ['it would have been sent long before it happened', '2025-05-05T00:00:00Z', '0001-01-01T00:00:00Z'],
    ['the outcome would be no time one can write', '0001-01-01T00:00:00Z', '9999-12-31T00:00:00Z'],
  ])('is not known where %s', (_, original, sentAt) => {
    expect(correctedTime(original, sentAt, RECEIVED)).toBeUndefined();
  });
});
