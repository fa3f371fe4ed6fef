import { setTimeout as sleep } from 'node:timers/promises';
import { type EventLog, NO_LOGGER, NO_METRICS, TOPIC } from '@tributary/core';
import { openEventLog, readConfig } from '@tributary/infra';
import { eventually } from '../helpers/client.ts';
import { type Cluster, startCluster, workedOff } from './cluster.ts';
import { sendBacklog } from './event.ts';
import type { BenchEngines } from './installation.ts';
import { countEntries, onEngines } from './installation.ts';
import { counted, forward, type LatencySubject } from './pipeline-rows.ts';
import { type BenchRow, judged, perSecond } from './table.ts';
import { cpuSeconds, microsecondsEach, peakResidentMiB } from './usage.ts';

const SCALING_PARTITIONS = '12';
const SAMPLE_MS = 250;

interface BacklogOptions {
  readonly engines: BenchEngines;
  readonly events: number;
}

/** One gateway and one processor with every stage. */
export async function startPair(engines: BenchEngines): Promise<LatencySubject> {
  const cluster = await startCluster(onEngines(engines));
  const processor = cluster.startProcessor();
  await processor.printed(/ready at/);
  const pids = {
    gateway: cluster.gatewayPid,
    processor: processor.pid,
    Kafka: engines.kafka.pid,
    Redis: engines.redis.pid,
  };
  return { ...cluster, pids };
}

/**
 * Events a second of one processor with every stage, from a backlog to files, and its memory on the way. The
 * baseline is a tenth of the backlog, because the stages alternate as the bottleneck while a backlog is
 * worked off.
 */
export async function drainRows({ engines, events }: BacklogOptions): Promise<readonly BenchRow[]> {
  const small = await workOff(engines, events / 10);
  const large = await workOff(engines, events);
  const path = `a processor works off ${events.toLocaleString('en')} events on Kafka`;
  const ratio = large.peakMiB / small.peakMiB;
  return [
    {
      path: `${path}, to files`,
      figure: perSecond(events / large.seconds),
      baseline: '-',
      ratio: null,
      bar: '-',
      holds: large.counted === events,
      note: `${large.counted.toLocaleString('en')} counted in ${large.seconds.toFixed(0)} s from its start; processor time an event: processor ${large.cpu.processor}, Kafka ${large.cpu.kafka}, Redis ${large.cpu.redis}`,
    },
    {
      path: `${path}, memory`,
      figure: `${large.peakMiB.toFixed(0)} MiB at most`,
      baseline: `${small.peakMiB.toFixed(0)} MiB for ${(events / 10).toLocaleString('en')}`,
      ...judged(ratio, '<=', 1.25),
    },
  ];
}

interface WorkedOff {
  readonly seconds: number;
  readonly peakMiB: number;
  readonly counted: number;
  /** Processor time an event of each process. */
  readonly cpu: { readonly processor: string; readonly kafka: string; readonly redis: string };
}

async function workOff(engines: BenchEngines, events: number): Promise<WorkedOff> {
  const cluster = await startCluster(onEngines(engines));
  try {
    await forward(cluster.owner, { type: 'ndjson', settings: { folder: 'bench' } }, 'files');
    await sendBacklog(cluster.producer, events);
    const startedAt = performance.now();
    const before = { kafka: cpuSeconds(engines.kafka.pid), redis: cpuSeconds(engines.redis.pid) };
    const processor = cluster.startProcessor();
    await processor.printed(/ready at/);
    // Stages have a lag once they were given partitions: before the first is counted, none has one.
    await eventually(
      () => counted(cluster.owner),
      (count) => count > 0,
      60_000,
    );
    await workedOff(processor);
    const peakMiB = peakResidentMiB(processor.pid);
    const seconds = (performance.now() - startedAt) / 1_000;
    const cpu = {
      processor: microsecondsEach(cpuSeconds(processor.pid), events),
      kafka: microsecondsEach(cpuSeconds(engines.kafka.pid) - before.kafka, events),
      redis: microsecondsEach(cpuSeconds(engines.redis.pid) - before.redis, events),
    };
    return { seconds, peakMiB, cpu, counted: await counted(cluster.owner) };
  } finally {
    await cluster.remove();
  }
}

/** Events a second of validate in 1, 2 and 4 processes over a backlog on 12 partitions. */
export async function scalingRows(options: BacklogOptions): Promise<readonly BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const processes of [1, 2, 4]) rows.push(await scalingRow(options, processes));
  return rows;
}

async function scalingRow({ engines, events }: BacklogOptions, processes: number): Promise<BenchRow> {
  const cluster = await startCluster(onEngines(engines), { TRIBUTARY_PARTITIONS: SCALING_PARTITIONS });
  try {
    await sendBacklog(cluster.producer, events);
    const { rate, cores } = await workOffTogether(cluster, processes, engines, events);
    const accepted = await countEntries(cluster.installation, TOPIC.accepted);
    return {
      path: `validate on Kafka, ${processes} ${processes === 1 ? 'process' : 'processes'}, 12 partitions`,
      figure: perSecond(rate),
      baseline: '-',
      ratio: null,
      bar: '-',
      holds: accepted === events,
      note: `cores in use: processors ${cores.processors.toFixed(2)}, Kafka ${cores.kafka.toFixed(2)}, Redis ${cores.redis.toFixed(2)}; ${Math.max(0, events - accepted)} missing`,
    };
  } finally {
    await cluster.remove();
  }
}

interface Sample {
  readonly at: number;
  /** Offsets written to the accepted events. */
  readonly written: number;
  /** Seconds of processor time used so far. */
  readonly cpu: { readonly processors: number; readonly kafka: number; readonly redis: number };
}

/** Measures the middle of the work, without the starts of the processes and without the last partitions. */
async function workOffTogether(
  { installation, startProcessor }: Cluster,
  processes: number,
  { kafka, redis }: BenchEngines,
  events: number,
): Promise<{ readonly rate: number; readonly cores: Sample['cpu'] }> {
  const log = await openEventLog(readConfig(installation.env), { logger: NO_LOGGER, metrics: NO_METRICS });
  try {
    const processors = Array.from({ length: processes }, () => startProcessor(['validate']));
    await Promise.all(processors.map((processor) => processor.printed(/ready at/)));
    const samples: Sample[] = [];
    do {
      samples.push({
        at: performance.now(),
        written: await written(log),
        cpu: {
          processors: processors.reduce((sum, { pid }) => sum + cpuSeconds(pid), 0),
          kafka: cpuSeconds(kafka.pid),
          redis: cpuSeconds(redis.pid),
        },
      });
      await sleep(SAMPLE_MS);
    } while ((samples.at(-1)?.written ?? 0) < events);
    return middleOf(samples);
  } finally {
    await log.close();
  }
}

async function written(log: EventLog): Promise<number> {
  const partitions = log.topics.get(TOPIC.accepted)?.partitions ?? 0;
  const ends = Array.from({ length: partitions }, (_, partition) => log.end(TOPIC.accepted, partition));
  return (await Promise.all(ends)).reduce((sum, end) => sum + end, 0);
}

function middleOf(samples: readonly Sample[]): { readonly rate: number; readonly cores: Sample['cpu'] } {
  const all = samples.at(-1)?.written ?? 0;
  const middle = samples.filter(({ written }) => written >= all * 0.15 && written <= all * 0.9);
  const [first, last] = [middle[0], middle.at(-1)];
  if (!first || !last || first === last) throw new Error('too few events to tell a rate');
  const seconds = (last.at - first.at) / 1_000;
  const cores = (of: keyof Sample['cpu']) => (last.cpu[of] - first.cpu[of]) / seconds;
  return {
    rate: (last.written - first.written) / seconds,
    cores: { processors: cores('processors'), kafka: cores('kafka'), redis: cores('redis') },
  };
}
