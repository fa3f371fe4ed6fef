import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, eventually } from '../helpers/client.ts';
import { startTributary, type Tributary } from '../helpers/tributary.ts';
import { startWebhook } from '../helpers/webhook.ts';
import { benchBatch, benchEvent } from './event.ts';
import { type BenchRow, judged, median, percentile, perSecond, UNCOMPARED } from './table.ts';
import { cpuSeconds, microsecondsEach, quarterPeaks, residentMiB, usageSince } from './usage.ts';

const BATCH = 1_000;

export async function forward(
  owner: Client,
  destination: { type: string; settings: object },
  name: string,
  eventNames: readonly string[] = [],
): Promise<void> {
  const { id } = await owner.post<{ id: string }>('./destinations', { name, ...destination });
  await owner.post('./event-forwarding-rules', {
    name,
    destination_id: id,
    event_types: ['track'],
    event_names: eventNames,
    transformation_id: null,
    enabled: true,
  });
}

export async function counted(owner: Client): Promise<number> {
  const volume = await owner.get<readonly { event_count: number }[]>('./event-volume');
  return volume.reduce((sum, { event_count }) => sum + event_count, 0);
}

/** Events a second from the first POST to the last one counted and delivered to files, and memory on the way. */
export async function throughputRows({ events }: { events: number }): Promise<readonly BenchRow[]> {
  const tributary = await startTributary();
  try {
    await forward(tributary.owner, { type: 'ndjson', settings: { folder: 'bench' } }, 'files');
    const memory: number[] = [];
    const startedAt = performance.now();
    const cpuBefore = cpuSeconds(tributary.pid);
    const body = benchBatch(BATCH);
    for (let sent = 0; sent < events; sent += BATCH) {
      await sendPatiently(tributary, body);
      if (sent % (BATCH * 20) === 0) memory.push(residentMiB(tributary.pid));
    }
    const sentIn = (performance.now() - startedAt) / 1_000;
    await eventually(
      async () => {
        memory.push(residentMiB(tributary.pid));
        await sleep(250);
        return counted(tributary.owner);
      },
      (count) => count >= events,
      30 * 60_000,
    );
    const doneIn = (performance.now() - startedAt) / 1_000;
    const cpu = microsecondsEach(cpuSeconds(tributary.pid) - cpuBefore, events);
    return [
      {
        path: 'pipeline end to end, counted and in files',
        figure: perSecond(events / doneIn),
        ...UNCOMPARED,
        note: `${events.toLocaleString('en')} events, sent in ${sentIn.toFixed(0)} s, done in ${doneIn.toFixed(0)} s, ${cpu} of processor time an event`,
      },
      memoryRow(`memory over ${events.toLocaleString('en')} events`, memory),
    ];
  } finally {
    await tributary.remove();
  }
}

/** Compares the last quarter of the memory samples (MiB) with the second. */
export function memoryRow(path: string, samples: readonly number[]): BenchRow {
  const [, early = Number.NaN, , late = Number.NaN] = quarterPeaks(samples);
  return {
    path,
    figure: `${late.toFixed(0)} MiB in the last quarter`,
    baseline: `${early.toFixed(0)} MiB in the second`,
    ...judged(late / early, '<=', 1.25),
  };
}

async function sendPatiently({ producer }: Tributary, body: object): Promise<void> {
  while ((await producer.call('POST', './events/batch', body)).status !== 202) await sleep(50);
}

/** The installation under measurement. */
export interface LatencySubject {
  readonly owner: Client;
  readonly producer: Client;
  /** Its processes and engines by what they are called in the row. */
  readonly pids: Readonly<Record<string, number>>;
  remove(): Promise<void>;
}

export interface LatencyRowOptions {
  readonly path: string;
  readonly seconds: number;
  /**
   * Runs at a fifth of the rate until all has arrived: processes and engines that just started are still
   * compiling.
   */
  readonly warmUpSeconds: number;
  /** Bar of the 99th percentile, ms. */
  readonly barMs: number;
  readonly start: () => Promise<LatencySubject>;
}

const EVENTS_PER_SECOND = 500;
const TICK_MS = 10;

/** From a producer's send to the arrival at a webhook, at a steady 500 events a second. */
export async function latencyRow(options: LatencyRowOptions): Promise<BenchRow> {
  const { path, seconds, warmUpSeconds, barMs, start } = options;
  const subject = await start();
  const underWay = new Map<string, number>();
  let latencies: number[] = [];
  const webhook = await startWebhook((call, response) => {
    response.writeHead(204).end();
    for (const { event } of call.body.deliveries ?? [call.body]) {
      const at = underWay.get(event.message_id);
      if (at === undefined) continue;
      underWay.delete(event.message_id);
      latencies.push(performance.now() - at);
    }
  });
  const send = async (name: string, forSeconds: number, perSecond: number): Promise<void> => {
    await sendSteadily(subject.producer, { name, seconds: forSeconds, perSecond }, underWay);
    await eventually(
      () => underWay.size,
      (size) => size === 0,
    );
  };
  try {
    const hook = { type: 'webhook', settings: { url: webhook.url } };
    await forward(subject.owner, hook, 'hook', ['Product Viewed']);
    await send('warm-up', warmUpSeconds, EVENTS_PER_SECOND / 5);
    latencies = [];
    const used = usageSince(subject.pids);
    await send('measured', seconds, EVENTS_PER_SECOND);
    const usage = used(latencies.length);
    const p99 = percentile(latencies, 0.99);
    return {
      path,
      figure: `p99 ${p99.toFixed(0)} ms`,
      baseline: `p50 ${median(latencies).toFixed(0)} ms`,
      ratio: null,
      bar: `p99 <= ${barMs} ms`,
      holds: p99 <= barMs,
      note: `${latencies.length.toLocaleString('en')} events; processor time of each: ${usage}`,
    };
  } finally {
    await subject.remove();
    await webhook.close();
  }
}

interface Steady {
  readonly name: string;
  readonly seconds: number;
  readonly perSecond: number;
}

/** Sends without waiting for answers, and records each send time. */
async function sendSteadily(
  producer: Client,
  { name, seconds, perSecond }: Steady,
  sentAt: Map<string, number>,
): Promise<void> {
  const startedAt = performance.now();
  const perTick = (perSecond * TICK_MS) / 1_000;
  for (let tick = 0; tick * TICK_MS < seconds * 1_000; tick++) {
    const wait = startedAt + tick * TICK_MS - performance.now();
    if (wait > 0) await sleep(wait);
    for (let i = 0; i < perTick; i++) {
      const message_id = `${name}-${tick}-${i}`;
      sentAt.set(message_id, performance.now());
      void producer.call('POST', './events/track', { ...benchEvent(tick * perTick + i), message_id });
    }
  }
}
