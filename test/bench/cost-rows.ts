import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '../helpers/client.ts';
import { welcomed } from '../helpers/embedded.ts';
import { ServerProcess } from '../helpers/server-process.ts';
import { lagOf } from './cluster.ts';
import { benchBatch } from './event.ts';
import { counted, forward } from './pipeline-rows.ts';
import { startProcess } from './process.ts';
import { type BenchRow, UNCOMPARED } from './table.ts';
import { threadMicroseconds } from './usage.ts';

/** Events of a request. */
const BATCH = 500;
const POLL_MS = 100;

/** What one event costs the embedded pipeline, from its request to its line in a file. */
export interface Cost {
  /** Processor time by name of the threads, us. */
  readonly threads: ReadonlyMap<string, number>;
  /** Of all threads, us. */
  readonly us: number;
  /** Of one thread that does nothing else than to parse and store the same events, us, in the same run. */
  readonly floorUs: number;
  /** Bytes of JavaScript objects that all threads allocated. */
  readonly allocated: number;
}

/** Measures `events` events in batches, behind half as many that warm up. */
export async function costOfAnEvent({ events }: { events: number }): Promise<Cost> {
  const floor = await startProcess<{ us: number }>('./floor-process.ts', {}, [`${events}`, `${BATCH}`]);
  const folder = mkdtempSync(join(tmpdir(), 'tributary-'));
  const server = new ServerProcess(['dev'], {
    TRIBUTARY_DATA_DIR: folder,
    TRIBUTARY_SANDBOX_PROCESSES: '1',
    LOG_LEVEL: 'error',
    NODE_OPTIONS: `--import=${new URL('./trace-gc.ts', import.meta.url).href}`,
  });
  try {
    await server.printed(/Stop with Ctrl-C/);
    const { url, adminUrl, idToken, workspaceId, writeKey } = welcomed(server.output);
    const owner = new Client(url, idToken, workspaceId);
    const producer = owner.with({ token: writeKey });
    await forward(owner, { type: 'ndjson', settings: { folder: 'cost' } }, 'files');
    const body = benchBatch(BATCH);
    let sent = 0;
    const passed = async (count: number) => {
      for (const end = sent + count; sent < end; ) {
        const { status } = await producer.call('POST', './events/batch', body);
        if (status === 202) sent += BATCH;
        else await sleep(POLL_MS);
      }
      while ((await counted(owner)) < sent || (await lagOf(adminUrl)) !== 0) await sleep(POLL_MS);
    };
    await passed(events / 2);
    const before = threadMicroseconds(server.pid);
    const printed = server.output.length;
    await passed(events);
    const threads = new Map<string, number>();
    for (const [id, { name, us }] of threadMicroseconds(server.pid))
      threads.set(name, (threads.get(name) ?? 0) + (us - (before.get(id)?.us ?? 0)) / events);
    return {
      threads,
      us: [...threads.values()].reduce((sum, us) => sum + us, 0),
      floorUs: floor.hello.us,
      allocated: allocatedBytes(server.output.slice(printed)) / events,
    };
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** By the lines of `--trace-gc`: what each heap grew between two of its collections, e.g. "12.1 (20.0) -> 8.0 (20.3) MB". */
function allocatedBytes(trace: string): number {
  const left = new Map<string, number>();
  let mib = 0;
  for (const line of trace.matchAll(/\[\d+:(\w+)[^\n]*? ([\d.]+) \([\d.]+\) -> ([\d.]+) \(/g)) {
    const [, heap = '', before, after] = line;
    mib += Math.max(0, Number(before) - (left.get(heap) ?? Number(before)));
    left.set(heap, Number(after));
  }
  return mib * 1024 * 1024;
}

export async function costRows({ events }: { events: number }): Promise<readonly BenchRow[]> {
  const { threads, us, floorUs, allocated } = await costOfAnEvent({ events });
  const ofThreads = [...threads].sort(([, a], [, b]) => b - a).filter(([, own]) => own >= 0.1);
  return [
    {
      ...UNCOMPARED,
      path: 'an event to files, all threads',
      figure: `${us.toFixed(1)} us`,
      baseline: `${floorUs.toFixed(1)} us on one thread`,
      ratio: us / floorUs,
    },
    ...ofThreads.map(([name, own]) => ({
      ...UNCOMPARED,
      path: `of it the threads "${name}"`,
      figure: `${own.toFixed(1)} us`,
    })),
    {
      ...UNCOMPARED,
      path: 'an event to files, allocated',
      figure: `${(allocated / 1024).toFixed(1)} KiB`,
    },
  ];
}
