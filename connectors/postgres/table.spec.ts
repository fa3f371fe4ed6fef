import { StoredDelivery } from '@tributary/core';
import { expect, it } from 'vitest';
import { COLUMNS, insertValues } from './table.ts';

const text = (timestamp: string, id: string) =>
  `{"id":"d","workspace_id":"w","destination_id":"p","rule_id":"r","message_id":"m","created_at":"2024-01-01T00:00:00.000Z","attempts":[],"redrives":0,"event":{"type":"track","timestamp":"${timestamp}","properties":{"id":${id}}}}`;
const column = (name: string, of: string) =>
  insertValues([StoredDelivery.from(of).delivery])[COLUMNS.findIndex(([known]) => known === name)]?.[0];

it('an event keeps the digits of its numbers', () => {
  expect(column('event', text('2024-01-01T00:00:00.000Z', '3412589630147852369'))).toContain(
    '"id":3412589630147852369',
  );
});

it('a time that was taken before times had one form is UTC, whatever the zone of the session', () => {
  expect(column('timestamp', text('2024-07-08', '1'))).toBe('2024-07-08T00:00:00.000Z');
  expect(column('timestamp', text('2024-07-08T09:10', '1'))).toBe('2024-07-08T09:10:00.000Z');
});
