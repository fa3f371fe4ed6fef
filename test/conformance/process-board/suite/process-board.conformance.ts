import { setTimeout as sleep } from 'node:timers/promises';
import type { ProcessBoard, ProcessReport } from '@tributary/core';
import { afterEach, describe, expect, it } from 'vitest';
import { measured } from '../../../helpers/measured.ts';

/** Access of the suite to one adapter. */
export interface ProcessBoardHarness {
  readonly name: string;
  /** Opens another instance of a board that expires reports after `keptMs`; instances of one `scope` share their data. */
  open(scope: string, keptMs: number): Promise<ProcessBoard>;
  dispose(scope: string): Promise<void>;
}

function report(process: string, changes: Partial<ProcessReport> = {}): ProcessReport {
  return {
    process,
    role: 'processor',
    host: 'host é☃',
    pid: 1,
    version: '0.2.0',
    commit: null,
    node: '24.0.0',
    started_at: 1,
    at: 2,
    ready: true,
    checks: { catalog: 'caught up' },
    memory_bytes: 3,
    engines: [{ engine: 'redis', state: 'answers', version: null }],
    stages: [{ stage: 'route', topics: [{ topic: 'events.accepted', partitions: [] }] }],
    ...changes,
  };
}

const names = (reports: readonly ProcessReport[]) => reports.map(({ process }) => process).sort();

/** The contract of the `ProcessBoard` port. */
export function processBoardConformance(harness: ProcessBoardHarness): void {
  describe(`the ${harness.name} process board`, () => {
    const opened: ProcessBoard[] = [];
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

    it('shows every process the newest report of each, whole', async () => {
      const [one, other] = [await open(), await open(60_000, true)];
      expect(await one.read()).toEqual([]);
      await one.report(report('a'));
      await other.report(report('b'));
      await one.report(report('a', { at: 9, ready: false }));
      expect((await other.read()).toSorted((a, b) => (a.process < b.process ? -1 : 1))).toEqual([
        report('a', { at: 9, ready: false }),
        report('b'),
      ]);
    });

    it('forgets a process that withdraws', async () => {
      const board = await open();
      for (const process of ['a', 'b', 'c']) await board.report(report(process));
      await board.withdraw('a');
      await board.withdraw('a');
      expect(names(await board.read())).toEqual(['b', 'c']);
    });

    it('forgets a process that does not report again', async () => {
      const run = async () => {
        const board = await open(400);
        for (const process of ['b', 'c']) await board.report(report(process));
        await sleep(250);
        await board.report(report('c'));
        await sleep(250);
        return names(await board.read());
      };
      expect(await measured(run, (left) => left.length === 1)).toEqual(['c']);
    });

    it('closes twice', async () => {
      const board = await open();
      await board.close();
      await board.close();
    });
  });
}
