import { type EventLog, type LogEntry, Unavailable } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { LogScan } from './log-scan.ts';

const BUDGET_MS = 100;

/** A log of one partition with this many entries, ten a read, at `readMs` of the clock each; `readable`: how many now. */
function setUp(
  entries: number,
  { readMs = 0, budgetMs = BUDGET_MS, readable = (_: number) => entries } = {},
) {
  const time = { now: 0 };
  const log = {
    end: async () => entries,
    read: async (topic: string, partition: number, from: number) => {
      time.now += readMs;
      const next = Math.min(readable(time.now), from + 10);
      const read = Array.from({ length: next - from }, (_, i): LogEntry => {
        const position = { topic, partition, offset: from + i, index: 0 };
        return { position, key: '', value: '', headers: {}, timestamp: 0 };
      });
      return { entries: read, next };
    },
  } as unknown as EventLog;
  return { scan: new LogScan(log, budgetMs, () => time.now), time };
}

const offsets: (visited: number[]) => (entry: LogEntry) => undefined = (visited) => (entry) => {
  visited.push(entry.position.offset);
  return undefined;
};
const all = { topic: 't', partition: 0, from: 0 };

describe('a scan of the log', () => {
  it('hands on a range in order, to its end or until the visitor has enough', async () => {
    const { scan } = setUp(25);
    const visited: number[] = [];
    expect(await scan.visit(all, offsets(visited))).toBe('end');
    expect(visited).toEqual([...Array(25).keys()]);
    expect(await scan.visit({ ...all, from: 3, to: 5 }, offsets(visited.splice(0)))).toBe('end');
    expect(await scan.visit(all, ({ position }) => (position.offset === 4 ? 'enough' : undefined))).toBe(
      'enough',
    );
    expect(scan.coverage()).toMatchObject({ complete: true, entries: 25 + 2 + 5 });
  });

  it('reads no more once its time is over, and states so', async () => {
    const { scan } = setUp(1_000, { readMs: 30 });
    const visited: number[] = [];
    expect(await scan.visit(all, offsets(visited))).toBe('timed out');
    expect(visited).toHaveLength(40);
    expect(scan.coverage()).toMatchObject({ complete: false, duration_ms: 120 });
  });

  it('waits a while for entries that cannot be read yet, and states so where they stay unreadable', async () => {
    const open = { until: 200 };
    const readable = (now: number) => (now < open.until ? 15 : 20);
    const { scan, time } = setUp(20, { readMs: 50, budgetMs: 10_000, readable });
    const visited: number[] = [];
    expect(await scan.visit(all, offsets(visited))).toBe('end');
    expect(visited).toEqual([...Array(20).keys()]);
    expect(scan.coverage()).toMatchObject({ complete: true });
    open.until = Number.POSITIVE_INFINITY;
    expect(await scan.visit(all, () => undefined)).toBe('timed out');
    expect(scan.coverage().complete).toBe(false);
    expect(time.now).toBeLessThan(1_000);
  });

  it('continues without an engine that does not answer, and names it', async () => {
    const { scan } = setUp(0);
    const down = async () => {
      throw new Unavailable('down');
    };
    expect(await scan.ask('history', down)).toBe('unanswered');
    expect(await scan.ask('deduplicator', () => new Promise<never>(() => {}))).toBe('unanswered');
    expect(await scan.ask('other', async () => 7)).toBe(7);
    expect(scan.coverage()).toMatchObject({ complete: false, unanswered: ['history', 'deduplicator'] });
    await expect(scan.ask('other', () => Promise.reject(new Error('a fault')))).rejects.toThrow('a fault');
  });
});
