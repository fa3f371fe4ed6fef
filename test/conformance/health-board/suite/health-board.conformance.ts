import { setTimeout as sleep } from 'node:timers/promises';
import {
  addSamples,
  type HealthBoard,
  type HealthReport,
  type HealthResolution,
  type HealthSample,
  mergeHealth,
  startOf,
} from '@tributary/core';
import { afterEach, describe, expect, it } from 'vitest';
import { measured } from '../../../helpers/measured.ts';

/** Access of the suite to one adapter. */
export interface HealthBoardHarness {
  readonly name: string;
  /**
   * Opens another instance of a board that expires entries after `keptMs`; instances of one `scope` share
   * their data.
   */
  open(scope: string, keptMs: number): Promise<HealthBoard>;
  dispose(scope: string): Promise<void>;
}

function report(destination: string, process = 'p1', fields: Partial<HealthReport> = {}): HealthReport {
  return {
    workspace_id: 'w1',
    destination_id: destination,
    process,
    at: Date.now(),
    window_ms: 60_000,
    delivered: 60,
    retry: 0,
    dead: 0,
    put_off: 0,
    latency: [[10, 60]],
    waiting: 0,
    under_way: 0,
    oldest_waiting_at: null,
    circuit: 'closed',
    circuit_since: 1,
    last_delivered_at: 5,
    last_errors: [{ at: 1, outcome: 'retry', reason: 'HTTP 503 "é☃"', status: 503 }],
    ...fields,
  };
}

const byName = (reports: readonly HealthReport[]) =>
  reports.map(({ destination_id, process }) => `${destination_id}/${process}`).sort();

/** The contract of the `HealthBoard` port. */
export function healthBoardConformance(harness: HealthBoardHarness): void {
  describe(`the ${harness.name} health board`, () => {
    const opened: HealthBoard[] = [];
    let scopes = 0;
    let scope = '';
    const open = async (keptMs = 60_000, again = false) => {
      if (!again) scope = `scope-${++scopes}`;
      const board = await harness.open(scope, keptMs);
      opened.push(board);
      return board;
    };
    afterEach(async () => {
      await Promise.all(opened.splice(0).map((board) => board.close()));
      await harness.dispose(scope);
    });

    it('returns the reported health, whole, to every caller', async () => {
      const board = await open();
      const told = report('a');
      await board.report([told]);
      expect(await (await open(60_000, true)).read('w1')).toEqual([told]);
    });

    it('keeps the newest of a destination and process, and of each process its own', async () => {
      const board = await open();
      await board.report([report('a'), report('a', 'p2'), report('b')]);
      await board.report([report('a', 'p1', { delivered: 120 })]);
      const found = await board.read('w1', ['a']);
      expect(byName(found)).toEqual(['a/p1', 'a/p2']);
      expect(mergeHealth(found)).toMatchObject({ processes: 2, delivered_per_second: 3 });
    });

    it('answers for the destinations asked for, of that workspace', async () => {
      const board = await open();
      await board.report([report('a'), report('b'), report('c'), report('a', 'p1', { workspace_id: 'w2' })]);
      expect(byName(await board.read('w1', ['a', 'c', 'nobody']))).toEqual(['a/p1', 'c/p1']);
      expect(byName(await board.read('w1'))).toEqual(['a/p1', 'b/p1', 'c/p1']);
      expect(await board.read('w1', [])).toEqual([]);
      expect(await board.read('w3')).toEqual([]);
    });

    it('forgets reports that were not renewed, and keeps renewed ones', async () => {
      const run = async () => {
        const board = await open(300);
        await board.report([report('a'), report('b')]);
        await sleep(200);
        await board.report([report('b')]);
        await sleep(200);
        return { left: byName(await board.read('w1')), board };
      };
      const { left, board } = await measured(run, (found) => found.left.length === 1);
      expect(left).toEqual(['b/p1']);
      await expect.poll(() => board.read('w1')).toEqual([]);
    });

    const HOUR_MS = 3_600_000;
    /** The start of the current hour: recent enough to be kept. */
    const hour = () => Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
    const sample = (destination: string, at: number, fields: Partial<HealthSample> = {}): HealthSample => ({
      workspace_id: 'w1',
      destination_id: destination,
      at,
      delivered: 5,
      retry: 1,
      dead: 0,
      put_off: 2,
      latency: [
        [3, 2],
        [11, 4],
      ],
      waiting: 4,
      oldest_waiting_ms: 900,
      circuit: 'closed',
      ...fields,
    });
    const wholeRange = (destinationId: string, resolution: HealthResolution) => ({
      workspaceId: 'w1',
      destinationId,
      resolution,
      from: hour() - 30 * 24 * HOUR_MS,
      until: hour() + HOUR_MS,
    });

    it('adds up what processes record of a minute, and of the minutes of an hour', async () => {
      const [one, other] = [await open(), await open(60_000, true)];
      const start = hour() - HOUR_MS;
      const recorded = [
        sample('a', start),
        sample('a', start, { latency: [[11, 1]], waiting: 9, circuit: 'half-open' }),
        sample('a', start + 60_000, { latency: [], oldest_waiting_ms: 5_000, circuit: 'open' }),
        sample('a', start + HOUR_MS),
        sample('b', start, { delivered: 1 }),
        sample('a', start, { workspace_id: 'w2', delivered: 1_000 }),
      ];
      for (const [n, each] of recorded.entries()) await (n % 2 === 0 ? one : other).record([each]);
      await one.record([]);
      for (const resolution of ['minute', 'hour'] as const) {
        const own = recorded.filter((each) => each.workspace_id === 'w1' && each.destination_id === 'a');
        const expected = [...Map.groupBy(own, ({ at }) => startOf(at, resolution))].map(([at, of]) =>
          of.map((each) => ({ ...each, at })).reduce(addSamples),
        );
        expect(await other.history(wholeRange('a', resolution))).toEqual(expected);
      }
      expect(await one.history(wholeRange('nobody', 'hour'))).toEqual([]);
    });

    it('reads a range, the end exclusive, and many samples recorded at once', async () => {
      const board = await open();
      const start = hour() - HOUR_MS;
      const minutes = Array.from({ length: 60 }, (_, n) =>
        sample('a', start + n * 60_000, { delivered: n + 1 }),
      );
      const others = Array.from({ length: 500 }, (_, n) => sample(`d${n}`, start));
      await board.record([...minutes, ...others]);
      const range = { from: start + 10 * 60_000, until: start + 12 * 60_000 };
      const found = await board.history({ ...wholeRange('a', 'minute'), ...range });
      expect(found.map(({ delivered }) => delivered)).toEqual([11, 12]);
      expect((await board.history(wholeRange('a', 'hour'))).map(({ delivered }) => delivered)).toEqual([
        1_830,
      ]);
      expect(await board.history(wholeRange('d499', 'minute'))).toHaveLength(1);
    });

    it('accepts a thousand destinations at once, and none', async () => {
      const board = await open();
      await board.report([]);
      await board.report(Array.from({ length: 1_000 }, (_, n) => report(`d${n}`)));
      expect(await board.read('w1')).toHaveLength(1_000);
    });
  });
}
