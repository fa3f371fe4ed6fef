import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { countReceived } from './count-received.ts';
import { benchBatch, benchEvent } from './event.ts';
import { type LoadResult, load } from './load.ts';
import { startProcess } from './process.ts';
import { type BenchRow, median, perSecond } from './table.ts';

interface GatewayHello {
  readonly url: string;
  readonly workspaceId: string;
  readonly writeKey: string;
}

interface Shape {
  readonly path: string;
  readonly body: string;
  readonly eventsPerRequest: number;
  readonly route: string;
  readonly connections: number;
  /** Absent: a figure without a bar. */
  readonly bar?: number;
  /** Milliseconds added to every commit, as a slower disk would. */
  readonly addedCommitMs?: number;
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
    bar: 0.65,
  },
  {
    path: 'POST one event, 512 connections',
    body: single,
    eventsPerRequest: 1,
    route: 'track',
    connections: 512,
    bar: 0.65,
  },
  {
    path: 'POST batches of 100, 64 connections',
    body: batch,
    eventsPerRequest: 100,
    route: 'batch',
    connections: 64,
    bar: 0.16,
  },
  {
    path: 'POST one event, 512 connections, each commit 5 ms slower',
    body: single,
    eventsPerRequest: 1,
    route: 'track',
    connections: 512,
    addedCommitMs: 5,
  },
];

/** The gateway, durable, against a bare Fastify echo of the same body: in turns, the median of the ratios. */
export async function gatewayRows({
  rounds,
  seconds,
}: {
  rounds: number;
  seconds: number;
}): Promise<readonly BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const shape of SHAPES) rows.push(await measure(shape, rounds, seconds));
  return rows;
}

async function measure(shape: Shape, rounds: number, seconds: number): Promise<BenchRow> {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-bench-'));
  const gateway = await startProcess<GatewayHello>('./gateway-process.ts', {
    TRIBUTARY_DATA_DIR: folder,
    TRIBUTARY_TEST_ADDED_COMMIT_MS: String(shape.addedCommitMs ?? 0),
  });
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
    for (let round = 0; round < rounds; round++) {
      pairs.push({ durable: await loadGateway(seconds), bare: await loadEcho(seconds) });
    }
    const answered = [warm, ...pairs.map(({ durable }) => durable)].reduce(
      (sum, result) => sum + result.answered,
      0,
    );
    const other = pairs.reduce((sum, { durable }) => sum + durable.other, 0);
    await gateway.stop();
    const stored = await countReceived(folder);
    const missing = answered * shape.eventsPerRequest - stored;
    const ratio = median(
      pairs.map(({ durable, bare }) => durable.requestsPerSecond / bare.requestsPerSecond),
    );
    return {
      path: shape.path,
      figure: perSecond(
        median(pairs.map(({ durable }) => durable.requestsPerSecond * shape.eventsPerRequest)),
      ),
      baseline: `echo ${perSecond(median(pairs.map(({ bare }) => bare.requestsPerSecond * shape.eventsPerRequest)))}`,
      ratio,
      bar: shape.bar === undefined ? '-' : `>= ${shape.bar}`,
      holds: missing <= 0 && (shape.bar === undefined || ratio >= shape.bar),
      note: `${stored.toLocaleString('en')} stored, ${Math.max(0, missing)} missing, ${other} not 2xx`,
    };
  } finally {
    await gateway.stop();
    await echo.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}
