import { readdirSync, readlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { startCluster, workedOff } from './cluster.ts';
import { sendBacklog } from './event.ts';
import type { BenchEngines } from './installation.ts';
import { onEngines } from './installation.ts';
import { forward } from './pipeline-rows.ts';
import { type BenchRow, UNCOMPARED } from './table.ts';
import { microsecondsEach, residentMiB, shareOfACore, usedBy } from './usage.ts';

const SETTLED_MS = 10_000;
const IDLE_SECONDS = 20;

interface Options {
  readonly engines: BenchEngines;
  readonly events: number;
  /** Partitions of each topic, one measurement each. */
  readonly partitions: readonly number[];
}

/**
 * The cost of partitions: one processor with every stage owns all of them, first idle, then with events that come in batches
 * and go to files. Its sockets are connections to the engines, and the few that it listens on.
 */
export async function partitionRows({ engines, events, partitions }: Options): Promise<readonly BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const count of partitions) rows.push(...(await rowsOf(engines, events, count)));
  return rows;
}

async function rowsOf(
  engines: BenchEngines,
  events: number,
  partitions: number,
): Promise<readonly BenchRow[]> {
  const cluster = await startCluster(onEngines(engines), { TRIBUTARY_PARTITIONS: String(partitions) });
  try {
    await forward(cluster.owner, { type: 'ndjson', settings: { folder: 'bench' } }, 'files');
    const startedAt = performance.now();
    const processor = cluster.startProcessor();
    await processor.printed(/ready at/);
    const readyMs = performance.now() - startedAt;
    await sleep(SETTLED_MS);
    const idleFrom = usedBy(processor.pid, engines);
    await sleep(IDLE_SECONDS * 1_000);
    const idleTo = usedBy(processor.pid, engines);
    const idleMiB = residentMiB(processor.pid);
    await sendBacklog(cluster.producer, events);
    await workedOff(processor);
    const done = usedBy(processor.pid, engines);
    const share = (of: 'process' | 'kafka') => shareOfACore(idleFrom, idleTo, of, IDLE_SECONDS);
    return [
      {
        ...UNCOMPARED,
        path: `${partitions} partitions, processor time an event`,
        figure: microsecondsEach(done.process - idleTo.process, events),
        note: `Kafka ${microsecondsEach(done.kafka - idleTo.kafka, events)}`,
      },
      {
        ...UNCOMPARED,
        path: `${partitions} partitions, idle`,
        figure: `${sockets(processor.pid)} sockets`,
        note: `of a core: ${share('process')}, Kafka ${share('kafka')}; ready in ${(readyMs / 1_000).toFixed(1)} s; ${idleMiB.toFixed(0)} MiB`,
      },
    ];
  } finally {
    await cluster.remove();
  }
}

/** Open sockets of a process. */
function sockets(pid: number): number {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).filter((fd) => isSocket(`${folder}/${fd}`)).length;
}

function isSocket(link: string): boolean {
  try {
    return readlinkSync(link).startsWith('socket:');
  } catch {
    return false; // closed meanwhile
  }
}
