import { type Delivery, readDelivery } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { COLUMNS, rowOf } from './rows.ts';

const text = (timestamp: string, id: string) =>
  `{"id":"d","workspace_id":"w","destination_id":"p","rule_id":"r","message_id":"m","created_at":"2024-01-01T00:00:00.000Z","attempts":[],"redrives":0,"event":{"type":"track","timestamp":"${timestamp}","properties":{"id":${id}}}}`;
const column = (name: string, of: string) =>
  rowOf(readDelivery(of) as Delivery)[COLUMNS.findIndex(([known]) => known === name)];

it('an event keeps the digits of its numbers', () => {
  expect(column('event', text('2024-01-01T00:00:00.000Z', '3412589630147852369'))).toContain(
    '"id":3412589630147852369',
  );
});

it('a time that was taken before times had one form is UTC, whatever the zone of the session', () => {
  expect(column('timestamp', text('2024-07-08', '1'))).toBe('2024-07-08T00:00:00.000Z');
  expect(column('timestamp', text('2024-07-08T09:10', '1'))).toBe('2024-07-08T09:10:00.000Z');
});

describe('a character that a database has no way to store cost the event', () => {
  const eventOf = (id: string) => JSON.parse(String(column('event', text('2024-07-08T00:00:00.000Z', id))));

  it.each([
    ['"a\\u0000b"', 'a\ufffdb'],
    ['["\\ud83d",{"x\\u0000":"\\udc00y"}]', ['\ufffd', { 'x\ufffd': '\ufffdy' }]],
    ['{"n":9007199254740993,"t":"\\u0000"}', { n: 9007199254740993n, t: '\ufffd' }],
  ])('%s', (id, stored) => {
    const digits = (_: string, value: unknown, { source }: { source?: string }) =>
      typeof value === 'number' && !Number.isSafeInteger(value) && source ? BigInt(source) : value;
    const json = String(column('event', text('2024-07-08T00:00:00.000Z', id)));
    const reviver = digits as (key: string, value: unknown) => unknown;
    expect(JSON.parse(json, reviver).properties.id).toEqual(stored);
  });

  it.each([
    ['"\\ud83d\\ude00"', '😀'],
    ['"\\\\u0000"', '\\u0000'],
  ])('%s stays', (id, stored) => {
    expect(eventOf(id).properties.id).toBe(stored);
  });
});
