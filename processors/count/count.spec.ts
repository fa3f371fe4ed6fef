import { HEADER, type LogEntry, TOPIC } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { tally } from './count.ts';

function eventAt(receivedAt: string, fields: object = {}) {
  return {
    message_id: 'm',
    type: 'track',
    event: 'A',
    user_id: 'u',
    timestamp: receivedAt,
    received_at: receivedAt,
    environment: 'production',
    workspace_id: 'w',
    ...fields,
  };
}

function entry(value: object, keyId?: string): LogEntry {
  return {
    key: 'k',
    value: JSON.stringify(value),
    headers: { [HEADER.catalogPosition]: '0', ...(keyId === undefined ? {} : { [HEADER.keyId]: keyId }) },
    position: { topic: TOPIC.accepted, partition: 0, offset: 0, index: 0 },
    timestamp: 0,
  };
}

describe('tally', () => {
  it('sums by workspace, environment, type, name and hour', () => {
    const { increments } = tally(TOPIC.accepted, [
      entry(eventAt('2026-01-01T10:00:00.000Z')),
      entry(eventAt('2026-01-01T10:59:59.999Z')),
      entry(eventAt('2026-01-01T11:00:00.000Z')),
      entry(eventAt('2026-01-01T10:30:00.000Z', { environment: 'development' })),
      entry(eventAt('2026-01-01T10:30:00.000Z', { type: 'identify', event: undefined })),
      entry(eventAt('2026-01-01T10:30:00.000Z', { type: 'page', name: 'Home', event: undefined })),
    ]);
    expect(increments.map((i) => [i.environment, i.eventType, i.eventName, i.hour, i.count])).toEqual([
      ['production', 'track', 'A', Date.parse('2026-01-01T10:00:00Z'), 2],
      ['production', 'track', 'A', Date.parse('2026-01-01T11:00:00Z'), 1],
      ['development', 'track', 'A', Date.parse('2026-01-01T10:00:00Z'), 1],
      ['production', 'identify', '', Date.parse('2026-01-01T10:00:00Z'), 1],
      ['production', 'page', 'Home', Date.parse('2026-01-01T10:00:00Z'), 1],
    ]);
  });

  it('counts by the headers of validate, without parsing', () => {
    const at = Date.parse('2026-01-01T10:20:00.000Z');
    const headers = {
      [HEADER.messageId]: 'm',
      [HEADER.workspaceId]: 'w',
      [HEADER.environment]: 'production',
      [HEADER.keyId]: 'key',
      [HEADER.countedAs]: `|key|track|${at}|A`,
    };
    const known = { ...entry({}), value: 'not JSON', headers };
    const { increments, keyUses } = tally(TOPIC.accepted, [
      known,
      entry(eventAt('2026-01-01T10:30:00.000Z')),
    ]);
    expect(increments.map(({ eventName, count }) => [eventName, count])).toEqual([['A', 2]]);
    expect(keyUses).toEqual([{ keyId: 'key', at }]);
    expect(tally(TOPIC.rejected, [known]).keyUses).toEqual([{ keyId: 'key', at }]);
  });

  it('counts rejected events for the use of their key alone', () => {
    const rejected = { event: eventAt('2026-01-01T10:00:00.000Z'), reason: 'event blocked', violations: [] };
    expect(tally(TOPIC.rejected, [entry(rejected, 'key')])).toEqual({
      increments: [],
      keyUses: [{ keyId: 'key', at: Date.parse('2026-01-01T10:00:00Z') }],
    });
  });

  it('keeps the latest use of a key, whatever the order', () => {
    const { keyUses } = tally(TOPIC.accepted, [
      entry(eventAt('2026-01-01T10:00:02.000Z'), 'a'),
      entry(eventAt('2026-01-01T10:00:01.000Z'), 'a'),
      entry(eventAt('2026-01-01T10:00:00.000Z'), 'b'),
    ]);
    expect(keyUses).toEqual([
      { keyId: 'a', at: Date.parse('2026-01-01T10:00:02Z') },
      { keyId: 'b', at: Date.parse('2026-01-01T10:00:00Z') },
    ]);
  });
});
