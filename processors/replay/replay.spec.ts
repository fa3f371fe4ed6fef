import {
  type Catalog,
  HEADER,
  type LogEntry,
  REPLAY_TICK_MS,
  type Replay,
  type ReplayStep,
  ThreadTurns,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { createReadBudgets, nextStep, ReadBudgets } from './replay.ts';

const TURNS = {
  elapsed: () => 0,
  scheduler: new ThreadTurns({ elapsed: () => 0, isBusy: () => false }),
};

const UNUSED = {
  contracts: { evaluate: () => ({ outcome: 'accepted' as const, violations: [] }) },
  reevaluations: { claim: async () => [] },
  dedupeWindowMs: 0,
};

const AT = '2026-01-01T00:00:00.000Z';
const REPLAY: Replay = {
  id: 'replay',
  version: 1,
  workspace_id: 'w',
  rule_id: null,
  since: AT,
  until: AT,
  events_per_second: 100,
  status: 'active',
  created_by: 'a',
  created_at: AT,
  updated_at: AT,
};
const STEP: ReplayStep = {
  replay_id: 'replay',
  workspace_id: 'w',
  number: 0,
  status: 'running',
  cursors: [{ partition: 0, from: 0, next: 0, end: 10 }],
  looked_at: 0,
  events: 0,
  created_at: AT,
  at: AT,
};

/** A log that keeps events of another workspace from `first` on, and returns those below `readable`. */
function logOf({ first, readable }: { readonly first: number; readonly readable: number }) {
  return {
    topics: new Map(),
    first: async () => first,
    offsetAt: async () => 0,
    end: async () => readable,
    read: async (topic: string, partition: number, from: number) => {
      const entries: LogEntry[] = [];
      for (let offset = from; first <= from && offset < readable; offset++) {
        const position = { topic, partition, offset, index: 0 };
        entries.push({ position, key: '', value: '{}', headers: {}, timestamp: 0 });
      }
      return { entries, next: from + entries.length };
    },
  };
}

const catalog = { state: {}, position: 0 } as unknown as Catalog;
const stepWith = async (log: ReturnType<typeof logOf>) =>
  (
    await nextStep(
      {
        log,
        catalog,
        clock: () => 0,
        retentionMs: 1,
        reads: createReadBudgets(() => 0),
        ...TURNS,
        ...UNUSED,
      },
      REPLAY,
      STEP,
    )
  ).next;

describe('a step of a replay', () => {
  it('waits where the log gives nothing yet, and skips none of it', async () => {
    expect(await stepWith(logOf({ first: 0, readable: 4 }))).toMatchObject({
      status: 'running',
      looked_at: 4,
      cursors: [{ next: 4 }],
    });
  });

  it.each([1, 3, 9, 10, 250])('sends on no more than %i events a second', async (rate) => {
    const rule = {
      id: 'r',
      workspace_id: 'w',
      destination_id: 'p',
      event_types: [],
      event_names: [],
      environments: ['production'],
      enabled: true,
    };
    const state = {
      enabledRules: () => [rule],
      entity: () => ({ enabled: true }),
    };
    const dependencies = {
      log: {
        ...logOf({ first: 0, readable: 10_000 }),
        read: async (topic: string, partition: number, from: number) => {
          const entries = Array.from({ length: 100 }, (_, n): LogEntry => {
            const position = { topic, partition, offset: from + n, index: 0 };
            const headers = { [HEADER.workspaceId]: 'w' };
            const value = JSON.stringify({
              message_id: `${from + n}`,
              workspace_id: 'w',
              type: 'track',
              received_at: AT,
              environment: 'production',
            });
            return { position, key: '', value, headers, timestamp: 0 };
          });
          return { entries, next: from + 100 };
        },
      },
      catalog: { state, position: 0 } as unknown as Catalog,
      clock: () => 0,
      retentionMs: 1,
      reads: createReadBudgets(() => 0),
      ...TURNS,
      ...UNUSED,
    };
    const ticks = 1_000 / REPLAY_TICK_MS;
    const asked = { ...REPLAY, events_per_second: rate };
    const made: number[] = [];
    let step: ReplayStep = { ...STEP, cursors: [{ partition: 0, from: 0, next: 0, end: 10_000 }] };
    for (let tick = 0; tick < 5 * ticks; tick++) {
      const { next, events } = await nextStep(dependencies, asked, step);
      made.push(events.length);
      step = { ...step, ...next, number: step.number + 1 };
    }
    expect(step.events).toBe(5 * rate);
    for (let tick = 0; tick + ticks <= made.length; tick++)
      expect(made.slice(tick, tick + ticks).reduce((sum, events) => sum + events)).toBe(rate);
  });

  it('passes removed records, up to the first kept one', async () => {
    expect(await stepWith(logOf({ first: 6, readable: 10 }))).toMatchObject({
      status: 'finished',
      looked_at: 4,
    });
    expect(await stepWith(logOf({ first: 20, readable: 20 }))).toMatchObject({
      status: 'finished',
      looked_at: 0,
    });
  });
});

/**
 * Bytes read by this many replays in ten seconds, each with a step every 250 ms that reads as much as it may.
 */
function readBy(replays: number): readonly number[] {
  const time = { now: 0 };
  const shares = new ReadBudgets(16_000, 4_000, () => time.now);
  const read = Array.from({ length: replays }, () => 0);
  for (; time.now < 10_000; time.now += 250)
    for (let n = 0; n < replays; n++) {
      if (shares.of(`${n}`) <= 0) continue;
      const piece = 4_000 / replays + 256; // a read exceeds its bound
      shares.take(`${n}`, piece);
      read[n] = (read[n] ?? 0) + piece;
    }
  return read;
}

it.each([1, 2, 50])('%i replays together read no more than one, and each its share', (replays) => {
  const read = readBy(replays);
  const sum = read.reduce((all, bytes) => all + bytes, 0);
  const overdrawn = replays * 256 + 4_000 * (1 + Math.log(replays)); // until the first ones are charged
  expect(sum).toBeGreaterThan(0.8 * 160_000);
  expect(sum).toBeLessThanOrEqual(160_000 + overdrawn + 4_000);
  expect(Math.min(...read)).toBeGreaterThan(0.5 * Math.max(...read));
});

it('shares only among running ones', () => {
  const time = { now: 0 };
  const shares = new ReadBudgets(16_000, 4_000, () => time.now);
  expect(shares.of('a')).toBe(4_000);
  expect(shares.of('b')).toBe(2_000);
  shares.take('a', 4_000);
  time.now = 250;
  expect(shares.of('a')).toBe(2_000);
  time.now = 5_200;
  expect(shares.of('a')).toBe(4_000);
});
