import { setTimeout as sleep } from 'node:timers/promises';
import { type Cluster, startCluster, workedOff } from './cluster.ts';
import { sendBacklog } from './event.ts';
import type { BenchEngines } from './installation.ts';
import { onEngines } from './installation.ts';
import { forward } from './pipeline-rows.ts';
import { startProcess } from './process.ts';
import { type BenchRow, UNCOMPARED } from './table.ts';
import { microsecondsEach, residentMiB, shareOfACore, type Used, usedBy } from './usage.ts';

const SETTLED_MS = 10_000;
const IDLE_SECONDS = 20;

/** In the order of the pipeline: each works off what those before it made. */
const STAGES = ['validate', 'live', 'profile', 'route', 'deliver', 'funnel'] as const;

interface Options {
  readonly engines: BenchEngines;
  readonly events: number;
}

/**
 * Figures for sizing machines: processor time and bytes of each event, by stage, with the share of the engines.
 * Each stage works the same backlog off in a process of its own, in the order of the pipeline, with one rule to a webhook.
 */
export async function sizingRows({ engines, events }: Options): Promise<readonly BenchRow[]> {
  const cluster = await startCluster(onEngines(engines));
  const webhook = await startProcess<{ url: string }>('./webhook-process.ts');
  try {
    await forward(cluster.owner, { type: 'webhook', settings: { url: webhook.hello.url } }, 'hook');
    const rows = [await gatewayRow(cluster, engines, events)];
    for (const stage of STAGES) rows.push(await stageRow(cluster, engines, stage, events));
    rows.push(...(await idleRows(cluster, engines)));
    return rows;
  } finally {
    await webhook.stop();
    await cluster.remove();
  }
}

async function gatewayRow(
  { producer, gatewayPid }: Cluster,
  engines: BenchEngines,
  events: number,
): Promise<BenchRow> {
  await sendBacklog(producer, events / 10);
  const before = usedBy(gatewayPid, engines);
  await sendBacklog(producer, events - events / 10);
  const after = usedBy(gatewayPid, engines);
  return row('the gateway, batches of 1,000', before, after, events - events / 10);
}

async function stageRow(
  cluster: Cluster,
  engines: BenchEngines,
  stage: string,
  events: number,
): Promise<BenchRow> {
  const processor = cluster.startProcessor([stage]);
  await processor.printed(/ready at/);
  const before = usedBy(processor.pid, engines);
  await workedOff(processor);
  const after = usedBy(processor.pid, engines);
  await processor.stop();
  return row(`the stage ${stage}`, before, after, events);
}

/** The idle load of each process and each engine. */
async function idleRows(cluster: Cluster, engines: BenchEngines): Promise<readonly BenchRow[]> {
  const processor = cluster.startProcessor();
  await processor.printed(/ready at/);
  await sleep(SETTLED_MS);
  const idle = [
    { name: 'a gateway', pid: cluster.gatewayPid },
    { name: 'a processor with every stage', pid: processor.pid },
  ].map((one) => ({ ...one, before: usedBy(one.pid, engines) }));
  await sleep(IDLE_SECONDS * 1_000);
  return idle.map(({ name, pid, before }) => {
    const after = usedBy(pid, engines);
    const share = (of: 'process' | 'kafka' | 'redis') => shareOfACore(before, after, of, IDLE_SECONDS);
    return {
      ...UNCOMPARED,
      path: `${name}, idle`,
      figure: `${residentMiB(pid).toFixed(0)} MiB`,
      note: `of a core: ${share('process')}; both together Kafka ${share('kafka')}, Redis ${share('redis')}`,
    };
  });
}

function row(path: string, before: Used, after: Used, events: number): BenchRow {
  const each = (of: 'process' | 'kafka' | 'redis') => microsecondsEach(after[of] - before[of], events);
  const bytes = Math.round((after.written - before.written) / events);
  return {
    ...UNCOMPARED,
    path: `${path}, processor time an event`,
    figure: each('process'),
    note: `Kafka ${each('kafka')}, Redis ${each('redis')}; ${bytes} bytes written by the broker`,
  };
}
