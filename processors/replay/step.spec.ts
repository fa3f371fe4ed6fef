import {
  type Catalog,
  HEADER,
  type LogEntry,
  REPLAY_TICK_MS,
  type Replay,
  type ReplayStep,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { SlowTurns } from '../fairness/slow-turns.ts';
import { nextStep, sharedReads } from './step.ts';

const TURNS = {
  elapsed: () => 0,
  turns: new SlowTurns(
    () => 0,
    () => false,
  ),
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

/** A log that keeps events of another workspace from `first` on, and gives those below `readable`. */
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
      { log, catalog, clock: () => 0, reads: sharedReads(() => 0), ...TURNS, ...UNUSED },
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
      reads: sharedReads(() => 0),
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

  it('passes what is no longer kept, up to what is', async () => {
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
