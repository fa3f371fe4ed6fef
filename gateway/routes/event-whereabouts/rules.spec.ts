import { type EventLog, HEADER, type LogEntry } from '@tributary/core';
import { expect, it } from 'vitest';
import { Look } from './look.ts';
import { waitingRules } from './rules.ts';
import { EVENT } from './samples.ts';

function slow(offset: number, headers: Readonly<Record<string, string>>): LogEntry {
  const about = {
    [HEADER.messageId]: 'm',
    [HEADER.workspaceId]: 'w',
    [HEADER.environment]: 'production',
    ...headers,
  };
  const position = { topic: 'events.slow', partition: 0, offset, index: 0 };
  return { position, key: '', value: '', headers: about, timestamp: 0 };
}

it('an event waits in the slow lane for its own entry, not for one of a replay; a redrive is told apart', async () => {
  const entries = [
    slow(0, { [HEADER.rules]: 'replayed', [HEADER.replay]: 'x' }),
    slow(1, { [HEADER.rules]: 'own,second' }),
    slow(2, { [HEADER.rules]: 'dead', [HEADER.redrives]: '1' }),
  ];
  const log = {
    end: async () => entries.length,
    offsetAt: async () => 0,
    positionOf: async () => 0,
    read: async () => ({ entries, next: entries.length }),
  } as unknown as EventLog;
  const look = new Look(log, 1_000, () => 0);
  expect(await waitingRules(look, log, { entry: slow(0, {}), event: EVENT })).toEqual({
    rules: ['own', 'second'],
    redriven: ['dead'],
    all: true,
  });
});
