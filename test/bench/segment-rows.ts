import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { onLoopback } from '../helpers/on-loopback.ts';
import { startTributary, type Tributary } from '../helpers/tributary.ts';
import { benchBatch } from './event.ts';
import { forward, type LatencySubject, latencyRow } from './pipeline-rows.ts';
import { type BenchRow, perSecond } from './table.ts';
import { cpuSeconds, microsecondsEach, packPids } from './usage.ts';

/** How long the vendor takes for an answer. */
const ANSWERED_AFTER_MS = 50;
const SOLD = 'Order Completed';
const POSTED_EACH_MS = 100;

interface Way {
  readonly name: string;
  readonly batch: boolean;
  /** Requests at a time. */
  readonly atATime: number;
  /** Events a second. */
  readonly bar: number;
}

const BATCHES: Way = { name: 'in batches', batch: true, atATime: 16, bar: 2_000 };
/** The default of 16 requests at a time makes 320 a second at such a vendor. */
const SINGLES: Way = { name: 'one by one', batch: false, atATime: 40, bar: 400 };

/** A vendor on this machine that counts events. */
async function startVendor() {
  const arrivals: { readonly at: number; readonly events: number }[] = [];
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    const body: unknown = JSON.parse(text);
    arrivals.push({ at: performance.now(), events: Array.isArray(body) ? body.length : 1 });
    await sleep(ANSWERED_AFTER_MS);
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  return { arrivals, ...(await onLoopback(server)) };
}

type Vendor = Awaited<ReturnType<typeof startVendor>>;

async function forwardToPack(
  { owner }: Tributary,
  { url }: Vendor,
  { name, batch, atATime }: Way,
): Promise<void> {
  const from = (path: string) => ({ '@path': path });
  const mapping = {
    event: from('$.event'),
    properties: from('$.properties'),
    userId: from('$.userId'),
    timestamp: from('$.timestamp'),
    context: {},
    channel: 'server',
    enable_batching: batch,
  };
  const subscriptions = [{ action: 'event', trigger: 'type = "track"', mapping, batch }];
  const settings = { apiKey: 'key-0123456789', environment: 'production', endpoint: url, subscriptions };
  const destination = { type: 'segment-altertable', settings, max_concurrency: atATime };
  await forward(owner, destination, `the pack ${name}`, [SOLD]);
}

/**
 * Events a second through Segment's pack to a vendor that takes its time, from the first to the last arrival, and the latency of
 * webhooks beside these rates.
 */
export async function segmentRows({ seconds }: { seconds: number }): Promise<readonly BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const way of [BATCHES, SINGLES]) rows.push(await rateRow(way, seconds));
  const latency = { seconds, warmUpSeconds: 3, barMs: 150 };
  const plain = async () => {
    const tributary = await startTributary();
    return { ...tributary, pids: { 'the process': tributary.pid } };
  };
  rows.push(await latencyRow({ ...latency, path: 'POST to webhook, 500 events/s', start: plain }));
  for (const way of [BATCHES, SINGLES])
    rows.push(
      await latencyRow({
        ...latency,
        path: `the same beside ${perSecond(way.bar)} through the pack ${way.name}`,
        start: () => startBeside(way),
      }),
    );
  return rows;
}

async function rateRow(way: Way, seconds: number): Promise<BenchRow> {
  const events = way.bar * 2 * seconds;
  const vendor = await startVendor();
  const tributary = await startTributary();
  try {
    await forwardToPack(tributary, vendor, way);
    const arrived = () => vendor.arrivals.reduce((sum, { events: some }) => sum + some, 0);
    // The process of the pack starts with the first event.
    await tributary.producer.post('./events/batch', benchBatch(100, [SOLD]));
    while (arrived() < 100) await sleep(20);
    vendor.arrivals.length = 0;
    const [used, usedByPack] = [cpuSeconds(tributary.pid), packSeconds(tributary.pid)];
    for (let sent = 0; sent < events; sent += 500)
      await tributary.producer.post('./events/batch', benchBatch(500, [SOLD]));
    while (arrived() < events) await sleep(20);
    const [first, last] = [vendor.arrivals[0]?.at ?? 0, vendor.arrivals.at(-1)?.at ?? 0];
    const rate = events / ((last - first) / 1_000);
    const own = microsecondsEach(cpuSeconds(tributary.pid) - used, events);
    const pack = microsecondsEach(packSeconds(tributary.pid) - usedByPack, events);
    return {
      path: `Segment pack ${way.name}, a vendor of ${ANSWERED_AFTER_MS} ms`,
      figure: perSecond(rate),
      baseline: '-',
      ratio: null,
      bar: `>= ${perSecond(way.bar)}`,
      holds: rate >= way.bar,
      note: `${vendor.arrivals.length.toLocaleString('en')} requests; processor time of an event: the process ${own}, the pack ${pack}`,
    };
  } finally {
    await tributary.remove();
    await vendor.close();
  }
}

function packSeconds(pid: number): number {
  return packPids(pid).reduce((sum, one) => sum + cpuSeconds(one), 0);
}

/** An installation that sends through the pack all the time. */
async function startBeside(way: Way): Promise<LatencySubject> {
  const vendor = await startVendor();
  const tributary = await startTributary();
  await forwardToPack(tributary, vendor, way);
  const body = benchBatch((way.bar * POSTED_EACH_MS) / 1_000, [SOLD]);
  const timer = setInterval(
    () => void tributary.producer.call('POST', './events/batch', body),
    POSTED_EACH_MS,
  );
  return {
    ...tributary,
    pids: { 'the process': tributary.pid },
    async remove() {
      clearInterval(timer);
      await tributary.remove();
      await vendor.close();
    },
  };
}
