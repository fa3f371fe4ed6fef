import {
  type CanonicalEvent,
  type Labels,
  type Metrics,
  NO_LOGGER,
  NO_METRICS,
  type RunTally,
} from '@tributary/core';
import { describe, expect, it, vi } from 'vitest';
import { type FinishedRun, RunMetrics } from './run-metrics.ts';

const EVENT = {} as CanonicalEvent;
const made = (events: number, durationMs = 1): FinishedRun => ({
  outcome: { ok: true, events: Array(events).fill(EVENT) },
  durationMs,
});
const failed: FinishedRun = { outcome: { ok: false, kind: 'threw', message: 'x' }, durationMs: 2 };
const transformation = (id: string) => ({ id, workspace_id: 'w' }) as Parameters<RunMetrics['note']>[0];

function setUp(metrics: Metrics = NO_METRICS) {
  const added: RunTally[] = [];
  const state = { fails: false };
  const counters = {
    async addRuns(tallies: readonly RunTally[]) {
      if (state.fails) throw new Error('no answer');
      added.push(...tallies);
    },
  };
  const clock = () => Date.parse('2026-01-01T10:20:00.000Z');
  return { added, state, runMetrics: new RunMetrics({ counters, clock, metrics, logger: NO_LOGGER }) };
}

describe('RunMetrics', () => {
  it('hands the results of runs to the counters, by transformation and hour', async () => {
    const { added, runMetrics } = setUp();
    runMetrics.note(transformation('a'), [made(1), made(0), made(3), failed]);
    runMetrics.note(transformation('a'), [made(1)]);
    runMetrics.note(transformation('b'), [made(1)]);
    runMetrics.note(transformation('c'), []);
    await runMetrics.close();
    expect(added).toMatchObject([
      {
        workspaceId: 'w',
        transformationId: 'a',
        hour: Date.parse('2026-01-01T10:00:00.000Z'),
        counts: { runs: 5, errors: 1, dropped: 1, fanned_out: 1, outputs: 5 },
      },
      { transformationId: 'b', counts: { runs: 1, outputs: 1 } },
    ]);
  });

  it('hands them to the counters by itself after a while', async () => {
    const { added, runMetrics } = setUp();
    runMetrics.note(transformation('a'), [made(1)]);
    await vi.waitFor(() => expect(added).toHaveLength(1), { timeout: 60_000 });
    runMetrics.note(transformation('a'), [made(1)]);
    await runMetrics.close();
    expect(added).toHaveLength(2);
  });

  it('keeps results that the counters did not accept', async () => {
    const { added, state, runMetrics } = setUp();
    state.fails = true;
    runMetrics.note(transformation('a'), [made(1)]);
    await runMetrics.close();
    state.fails = false;
    runMetrics.note(transformation('a'), [made(1)]);
    await runMetrics.close();
    expect(added).toMatchObject([{ counts: { runs: 2 } }]);
  });

  it('labels a hundred transformations by name and no more', async () => {
    const seen = new Map<string, number>();
    const { runMetrics } = setUp({
      ...NO_METRICS,
      count(_name, given, by = 1) {
        const labels: Labels = given ?? {};
        const key = `${labels.transformation} ${labels.outcome}`;
        seen.set(key, (seen.get(key) ?? 0) + by);
      },
    });
    for (let i = 0; i < 150; i++) runMetrics.note(transformation(`t${i}`), [made(1)]);
    runMetrics.note(transformation('t7'), [made(0), made(2), failed]);
    await runMetrics.close();
    expect(seen.size).toBe(104);
    expect(seen.get('other ok')).toBe(50);
    expect(['dropped', 'fanned_out', 'threw'].map((outcome) => seen.get(`t7 ${outcome}`))).toEqual([1, 1, 1]);
  });
});
