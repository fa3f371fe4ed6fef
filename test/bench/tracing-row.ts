import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { onLoopback } from '../helpers/on-loopback.ts';
import { startTributary, type Tributary } from '../helpers/tributary.ts';
import { benchBatch } from './event.ts';
import { counted, forward } from './pipeline-rows.ts';
import { type BenchRow, judged, median } from './table.ts';
import { cpuSeconds } from './usage.ts';

const BATCH = 20;
const CONNECTIONS = 8;
/** Longer than spans wait for their export. */
const SETTLED_MS = 1_500;
const RATIO = 0.01;

/**
 * Processor time of an event, from its POST to a file, where one of a hundred is traced, against none: in turns, since other
 * load of the machine changes rates far more than this.
 */
export async function tracingRow({
  rounds,
  events,
}: {
  readonly rounds: number;
  readonly events: number;
}): Promise<BenchRow> {
  let exports = 0;
  const collector = createServer((request, response) => {
    exports++;
    request.resume().on('end', () => response.writeHead(200).end());
  });
  const { url, close } = await onLoopback(collector);
  const traced = {
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    OTEL_TRACES_SAMPLER: 'traceidratio',
    OTEL_TRACES_SAMPLER_ARG: String(RATIO),
    OTEL_BSP_SCHEDULE_DELAY: '500',
  };
  const [off, on] = [await startTributary(), await startTributary({ env: traced })];
  try {
    for (const { owner } of [off, on])
      await forward(owner, { type: 'ndjson', settings: { folder: 'bench' } }, 'files');
    for (const one of [off, on]) await microsecondsAnEvent(one, events);
    const pairs: { readonly off: number; readonly on: number }[] = [];
    for (let round = 0; round < rounds; round++) {
      const isEven = round % 2 === 0;
      const first = await microsecondsAnEvent(isEven ? off : on, events);
      const second = await microsecondsAnEvent(isEven ? on : off, events);
      pairs.push(isEven ? { off: first, on: second } : { off: second, on: first });
    }
    const ratios = pairs.map((pair) => pair.on / pair.off);
    const ratio = median(ratios);
    const us = (values: readonly number[]) => `${median(values).toFixed(1)} us an event`;
    return {
      path: 'pipeline end to end, one event of a hundred traced',
      figure: us(pairs.map((pair) => pair.on)),
      baseline: `${us(pairs.map((pair) => pair.off))} without tracing`,
      ...judged(ratio, '<=', 1.02),
      note: `${rounds} rounds, ${Math.min(...ratios).toFixed(3)} to ${Math.max(...ratios).toFixed(3)}; ${exports} exports`,
    };
  } finally {
    await off.remove();
    await on.remove();
    await close();
  }
}

/** Processor time of the process for each of so many events, until they are counted and their files written. */
async function microsecondsAnEvent(tributary: Tributary, events: number): Promise<number> {
  const { producer, owner, pid } = tributary;
  const body = benchBatch(BATCH);
  const target = (await counted(owner)) + events;
  const before = cpuSeconds(pid);
  let sent = 0;
  const send = async () => {
    while (sent < events) {
      sent += BATCH;
      while ((await producer.call('POST', './events/batch', body)).status !== 202) await sleep(50);
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, send));
  for (const deadline = Date.now() + 300_000; (await counted(owner)) < target; await sleep(250))
    if (Date.now() > deadline) throw new Error('the events were not counted');
  await sleep(SETTLED_MS);
  return ((cpuSeconds(pid) - before) * 1e6) / events;
}
