import { type EventLog, HEADER, type LogEntry, TOPIC } from '@tributary/core';
import { expect, it } from 'vitest';
import { isInSlowValidation } from './event-tracer.ts';
import { LogScan } from './log-scan.ts';

const EVENT = {
  message_id: 'm',
  type: 'track',
  user_id: 'u',
  timestamp: '2026-01-01T00:00:00.000Z',
  received_at: '2026-01-01T00:00:00.000Z',
  environment: 'production',
  workspace_id: 'w',
} as const;

function entryAt(topic: string, offset: number, messageId: string): LogEntry {
  const headers = {
    [HEADER.messageId]: messageId,
    [HEADER.workspaceId]: 'w',
    [HEADER.environment]: 'production',
  };
  const position = { topic, partition: 0, offset, index: 0 };
  return { position, key: '', value: '{}', headers, timestamp: Date.parse(EVENT.received_at) };
}

it('an event is found in the slow queue of validate until that has taken it', async () => {
  const kept = ['a', 'm', 'z'].map((message, offset) => entryAt(TOPIC.receivedSlow, offset, message));
  let taken = 0;
  const log = {
    topics: new Map([[TOPIC.receivedSlow, { partitions: 1 }]]),
    end: async () => kept.length,
    offsetAt: async () => 0,
    positionOf: async (stage: string) => (stage === 'validate.slow' ? taken : undefined),
    read: async (_topic: string, _partition: number, from: number) => ({
      entries: kept.slice(from),
      next: kept.length,
    }),
  } as unknown as EventLog;
  const waits = (message_id: string) => {
    const received = { entry: entryAt('events.production', 5, message_id), event: { ...EVENT, message_id } };
    return isInSlowValidation(new LogScan(log, 1_000, () => 0), received);
  };
  expect(await waits('m')).toBe(true);
  expect(await waits('other')).toBe(false);
  taken = 2;
  expect(await waits('m')).toBe(false);
  expect(await waits('z')).toBe(true);
});
