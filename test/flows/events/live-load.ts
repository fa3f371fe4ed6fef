import { setTimeout as delay } from 'node:timers/promises';
import { cpuSeconds, residentMiB } from '../../bench/usage.ts';
import { Child } from '../../helpers/child.ts';
import { eventually } from '../../helpers/client.ts';
import { openEventStream } from '../../helpers/event-stream.ts';
import type { Tributary } from '../../helpers/tributary.ts';
import type { StreamReadersTask } from './stream-readers.ts';

/** Room for as many streams as are opened here. */
export const STREAM_LIMITS = {
  TRIBUTARY_LIVE_STREAMS: '600',
  TRIBUTARY_LIVE_STREAMS_PER_WORKSPACE: '600',
  TRIBUTARY_LIVE_STREAMS_PER_ORGANIZATION: '600',
  TRIBUTARY_LIVE_STREAMS_PER_ACCOUNT: '600',
};

export const IS_LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;
/** The sending time for each figure, ms, and the number of alternations. */
const SPAN_MS = IS_LONG ? 8_000 : 1_500;
const ROUNDS = IS_LONG ? 5 : 2;
const SENDERS = 8;
const BATCH = 50;
/** A rate well below full load, at which processor time varies little between runs, events a second. */
const STEADY_RATE = 3_000;

/** The figures of a period of sending. */
interface Sent {
  /** Events a second answered with 202. */
  readonly rate: number;
  /** Processor time of the accepting process, us an event. */
  readonly cpu: number;
  /** The same as a share of a core. */
  readonly cores: number;
}

export interface LiveLoad {
  readonly without: Sent;
  readonly among: Sent;
  /** The cost of the streams at `STEADY_RATE`, a share of a core: the mean of the rounds. */
  readonly streamCores: number;
  /** The peak memory of the gateway's process before the first streams, and in each round with them, MiB. */
  readonly memoryBefore: number;
  readonly memoryAmong: readonly number[];
  /** Of the one stream that is read: events received, and events reported as missed. */
  readonly seen: number;
  readonly missed: number;
}

/**
 * Sends events at the full and at a steady rate, alternately without and with this many streams, one of which is
 * never read.
 */
export async function loadWithStreams(tributary: Tributary, count: number): Promise<LiveLoad> {
  const { url, idToken, workspaceId, pid } = tributary;
  const [without, among]: [Sent[], Sent[]] = [[], []];
  await send(tributary); // warm-up
  let [memoryBefore, peak, seen, missed] = [0, 0, 0, 0];
  const memoryAmong: number[] = [];
  const streamCores: number[] = [];
  const watching = setInterval(() => {
    peak = Math.max(peak, residentMiB(pid));
  }, 50);
  try {
    for (let round = 0; round < ROUNDS; round++) {
      without.push(await send(tributary));
      if (round === 0) memoryBefore = peak;
      const unwatched = await send(tributary, STEADY_RATE);
      peak = 0;
      const task: StreamReadersTask = { url, idToken, workspaceId, read: count - 2, unread: 1 };
      const readers = new Child(new URL('./stream-readers.ts', import.meta.url), [JSON.stringify(task)]);
      const watched = await openEventStream(url, { token: idToken, workspaceId });
      try {
        await readers.wrote(1);
        among.push(await send(tributary));
        memoryAmong.push(peak);
        streamCores.push((await send(tributary, STEADY_RATE)).cores - unwatched.cores);
        seen += watched.events().length;
        for (const { count: told } of watched.notices('missed') as { count: number | null }[])
          missed += told ?? 0;
      } finally {
        watched.close();
        await readers.kill();
      }
      await eventually(
        async () => /^tributary_live_streams(?:\{\})? (\d+)$/m.exec(await tributary.metrics())?.[1],
        (open) => open === '0',
      );
    }
  } finally {
    clearInterval(watching);
  }
  return {
    without: median(without),
    among: median(among),
    streamCores: streamCores.reduce((sum, cores) => sum + cores, 0) / ROUNDS,
    memoryBefore,
    memoryAmong,
    seen,
    missed,
  };
}

/** @param rate Events a second, as long as the gateway keeps up. */
async function send(tributary: Tributary, rate = Number.POSITIVE_INFINITY): Promise<Sent> {
  const [from, cpuBefore] = [performance.now(), cpuSeconds(tributary.pid)];
  let taken = 0;
  await Promise.all(
    Array.from({ length: SENDERS }, async (_, sender) => {
      while (performance.now() < from + SPAN_MS) {
        const batch = Array.from({ length: BATCH }, (_, n) => ({
          type: 'track',
          event: 'Load',
          user_id: `u${sender}-${n}`,
          properties: { text: 'x'.repeat(300) },
        }));
        const { status } = await tributary.producer.call('POST', './events/batch', { batch });
        if (status === 202) taken += BATCH;
        const aheadMs = from + (taken / rate) * 1_000 - performance.now();
        if (aheadMs > 0) await delay(aheadMs);
      }
    }),
  );
  const seconds = (performance.now() - from) / 1_000;
  const cpu = cpuSeconds(tributary.pid) - cpuBefore;
  return { rate: taken / seconds, cpu: (cpu / taken) * 1e6, cores: cpu / seconds };
}

/** By rate, the lower of the two in the middle. */
function median(sent: readonly Sent[]): Sent {
  const sorted = sent.toSorted((a, b) => a.rate - b.rate);
  return (
    sorted[Math.floor((sorted.length - 1) / 2)] ?? { rate: Number.NaN, cpu: Number.NaN, cores: Number.NaN }
  );
}
