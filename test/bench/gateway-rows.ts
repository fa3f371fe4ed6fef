import { receivedTopic } from '@tributary/core';
import { benchBatch, benchEvent } from './event.ts';
import type { Wiring } from './installation.ts';
import { countEntries, startGateway } from './installation.ts';
import { type LoadResult, load } from './load.ts';
import { startProcess } from './process.ts';
import { type BenchRow, median, perSecond } from './table.ts';
import { usageSince } from './usage.ts';

interface Shape {
  readonly path: string;
  readonly body: string;
  readonly eventsPerRequest: number;
  readonly route: string;
  readonly connections: number;
  /** By wiring. */
  readonly bars: Readonly<Record<Wiring['name'], number>>;
}

const single = JSON.stringify(benchEvent(1));
const batch = JSON.stringify(benchBatch(100));

const SHAPES: readonly Shape[] = [
  {
    path: 'POST one event, 64 connections',
    body: single,
    eventsPerRequest: 1,
    route: 'track',
    connections: 64,
    bars: { embedded: 0.65, kafka: 0.5 },
  },
  {
    path: 'POST one event, 512 connections',
    body: single,
    eventsPerRequest: 1,
    route: 'track',
    connections: 512,
    bars: { embedded: 0.65, kafka: 0.5 },
  },
  {
    path: 'POST batches of 100, 64 connections',
    body: batch,
    eventsPerRequest: 100,
    route: 'batch',
    connections: 64,
    bars: { embedded: 0.16, kafka: 0.16 },
  },
];

interface GatewayRowOptions {
  readonly wiring: Wiring;
  readonly rounds: number;
  readonly seconds: number;
  /** The broker that it appends to: its processor time is shown as well. */
  readonly kafkaPid?: number;
}

/**
 * The durable gateway against a bare Fastify echo of the same body: in alternation, the median of the ratios.
 */
export async function gatewayRows(options: GatewayRowOptions): Promise<readonly BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const shape of SHAPES) rows.push(await measure(shape, options));
  return rows;
}

async function measure(
  shape: Shape,
  { wiring, rounds, seconds, kafkaPid }: GatewayRowOptions,
): Promise<BenchRow> {
  const bar = shape.bars[wiring.name];
  const installation = wiring.install();
  const gateway = await startGateway(installation);
  const echo = await startProcess<{ url: string }>('./echo-process.ts');
  try {
    const { url, workspaceId, writeKey } = gateway.hello;
    const common = { body: shape.body, connections: shape.connections };
    const json = { 'content-type': 'application/json' };
    const loadGateway = (duration: number) =>
      load({
        ...common,
        seconds: duration,
        url: `${url}/api/v1/workspaces/${workspaceId}/events/${shape.route}`,
        headers: { ...json, authorization: `Bearer ${writeKey}` },
      });
    const loadEcho = (duration: number) =>
      load({ ...common, seconds: duration, url: echo.hello.url, headers: json });
    const warm = await loadGateway(2);
    await loadEcho(2);

    const pairs: { readonly durable: LoadResult; readonly bare: LoadResult }[] = [];
    const usedByGateway = usageSince({
      gateway: gateway.pid,
      ...(kafkaPid === undefined ? {} : { Kafka: kafkaPid }),
    });
    const usedByEcho = usageSince({ echo: echo.pid });
    for (let round = 0; round < rounds; round++) {
      pairs.push({ durable: await loadGateway(seconds), bare: await loadEcho(seconds) });
    }
    const [durable, bare] = [pairs.map((pair) => pair.durable), pairs.map((pair) => pair.bare)];
    const eventsIn = (results: readonly LoadResult[]) =>
      results.reduce((sum, run) => sum + run.answered * shape.eventsPerRequest, 0);
    const times = `${usedByGateway(eventsIn(durable))}, ${usedByEcho(eventsIn(bare))}`;
    const runs = [warm, ...durable];
    const answered = runs.reduce((sum, run) => sum + run.answered, 0);
    const other = runs.reduce((sum, run) => sum + run.other, 0);
    await gateway.stop();
    const stored = await countEntries(installation, receivedTopic('production'));
    const missing = Math.max(0, answered * shape.eventsPerRequest - stored);
    const ratio = median(
      pairs.map(({ durable, bare }) => durable.requestsPerSecond / bare.requestsPerSecond),
    );
    const events = (results: readonly LoadResult[]) =>
      perSecond(median(results.map(({ requestsPerSecond }) => requestsPerSecond * shape.eventsPerRequest)));
    return {
      path: wiring.name === 'kafka' ? `${shape.path}, Kafka acks=all` : shape.path,
      figure: events(durable),
      baseline: `echo ${events(bare)}`,
      ratio,
      bar: `>= ${bar}`,
      holds: missing === 0 && ratio >= bar,
      note: `${stored.toLocaleString('en')} stored, ${missing} missing, ${other} not 2xx; processor time an event: ${times}`,
    };
  } finally {
    await gateway.stop();
    await echo.stop();
    await installation.remove();
  }
}
