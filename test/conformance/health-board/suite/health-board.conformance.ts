import { setTimeout as sleep } from 'node:timers/promises';
import { type HealthBoard, type HealthReport, mergeHealth } from '@tributary/core';
import { afterEach, describe, expect, it } from 'vitest';

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

    it('gives back what was told, whole, to whoever asks', async () => {
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

    it('forgets what was not renewed, and keeps what was', async () => {
      const board = await open(300);
      await board.report([report('a'), report('b')]);
      await sleep(200);
      await board.report([report('b')]);
      await sleep(200);
      expect(byName(await board.read('w1'))).toEqual(['b/p1']);
      await sleep(200);
      expect(await board.read('w1')).toEqual([]);
    });

    it('takes a thousand destinations at once, and none', async () => {
      const board = await open();
      await board.report([]);
      await board.report(Array.from({ length: 1_000 }, (_, n) => report(`d${n}`)));
      expect(await board.read('w1')).toHaveLength(1_000);
    });
  });
}
