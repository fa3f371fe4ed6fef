import { setTimeout as sleep } from 'node:timers/promises';
import { retryTopic } from '@tributary/core';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { percentile } from '../../bench/table.ts';
import { eventually } from '../../helpers/client.ts';
import { entriesOf } from '../../helpers/log-of.ts';
import { mostInASecond } from '../../helpers/most-in-a-second.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { forwardTo, Receivers, type Webhook } from '../../helpers/webhook.ts';

/** The duration of an hour here, ms; a circuit is still open for 15 s. */
const HOUR_MS = 60_000;
/** The retry schedule scaled to the hour; the last step repeats. */
const LADDER = ['1s', '6s', '20s', '60s'];
const BACKLOG = 6_000;
/** Calls a second that the destination may get. */
const RATE = 100;
const CALLS_AT_A_TIME = 4;
/** One event of the others each time, ms. */
const OTHERS_EVERY_MS = 50;

/** The time events took to reach the other destinations, by their send time. Epoch ms, ms. */
interface Arrival {
  readonly sentAt: number;
  readonly tookMs: number;
}

/**
 * A destination gets its backlog after a long outage at a rate it can bear, without delays for other
 * destinations.
 */
describe('Down for an hour', () => {
  const receivers = new Receivers();
  let tributary: Tributary;
  afterEach(async () => {
    await tributary.remove();
    await receivers.close();
  });

  it('its backlog is drained at a bounded rate, each delivery once, and the events of others do not wait for it', async () => {
    tributary = await startTributary({ env: { TRIBUTARY_RETRY_SCHEDULE: LADDER.join(',') } });
    const webhook = await receivers.open();
    const limits = { rate_limit_per_second: RATE, max_concurrency: CALLS_AT_A_TIME };
    const destination = await forwardTo(tributary.owner, webhook.url, 'Down', limits);
    const others = await Promise.all([receivers.open(), receivers.open()]);
    for (const { url } of others) await forwardTo(tributary.owner, url, 'Other');
    await sendBacklog(1);
    await eventually(
      () => webhook.calls.length,
      (calls) => calls === 1,
    );

    const sending = new AbortController();
    onTestFinished(() => sending.abort());
    const sent = sendOthers(sending.signal);
    const atATime = countAtATime(webhook);
    await sendBacklog(BACKLOG);
    await eventually(
      async () =>
        (await tributary.owner.get<{ circuit: string }>(`./destinations/${destination}/health`)).circuit,
      (circuit) => circuit === 'open',
    );
    await sleep(HOUR_MS);
    const whileDown = webhook.calls.length - 1;
    atATime.recover();
    const backAt = Date.now();
    const delivered = () => webhook.calls.slice(1 + whileDown).filter(({ at }) => at >= backAt);
    await eventually(
      () => new Set(delivered().map(({ body }) => body.id)).size,
      (count) => count === BACKLOG,
      3 * HOUR_MS + 90_000,
    );
    const drained = delivered().map(({ at }) => at);
    const [first = 0, last = 0] = [drained[0], drained.at(-1)];
    sending.abort();
    const arrivals = await arrivalsOf(others, await sent);
    const before = arrivals.filter(({ sentAt }) => sentAt < backAt).map(({ tookMs }) => tookMs);
    const during = arrivals
      .filter(({ sentAt }) => sentAt >= first && sentAt < last)
      .map(({ tookMs }) => tookMs);
    const most = mostInASecond(drained);
    const written = await writtenToRetryTopics();

    console.log(
      [
        `down for ${HOUR_MS / 1_000} s: ${whileDown} calls meanwhile, ${BACKLOG} deliveries behind it`,
        `back: first call after ${first - backAt} ms, all of them within ${last - first} ms, at most ${most} in a second and ${atATime.most()} at a time`,
        `retry topics: ${(written / BACKLOG).toFixed(1)} entries a delivery`,
        `others: ${told(before)} while it was down, ${told(during)} while it was drained`,
      ].join('\n'),
    );
    // Few calls while it is down: those in flight when its circuit opened, and an occasional probe.
    expect(whileDown).toBeLessThanOrEqual(10 + 2 * CALLS_AT_A_TIME + Math.ceil(HOUR_MS / 15_000));
    // No storm at its recovery either: at the rate limit of the destination, each delivery once.
    expect(drained).toHaveLength(BACKLOG);
    expect(last - first).toBeGreaterThan((BACKLOG / (1.1 * RATE)) * 1_000 - 1_000);
    expect(most).toBeLessThanOrEqual(2 * RATE); // as they arrive on a busy machine
    expect(atATime.most()).toBeLessThanOrEqual(CALLS_AT_A_TIME);
    // Behind the backlog an event would take as long as the rest of the backlog.
    expect(during.length).toBeGreaterThan(0);
    expect(Math.max(...during)).toBeLessThan((last - first) / 2);
    expect(await tributary.owner.get('./deliveries?status=dead')).toEqual([]);
  }, 300_000);

  async function sendBacklog(count: number): Promise<void> {
    for (let sent = 0; sent < count; sent += 500) {
      const batch = Array.from({ length: Math.min(500, count - sent) }, (_, n) => ({
        type: 'track',
        event: 'Down',
        user_id: `u${sent + n}`,
      }));
      await tributary.producer.post('./events/batch', { batch });
    }
  }

  /** Sends events to the other destinations until aborted; returns their number. */
  async function sendOthers(until: AbortSignal): Promise<number> {
    const sending: Promise<unknown>[] = [];
    for (; !until.aborted; await sleep(OTHERS_EVERY_MS)) {
      const properties = { sent_at: Date.now() };
      const body = { event: 'Other', user_id: `o${sending.length}`, properties };
      sending.push(tributary.producer.post('./events/track', body));
    }
    await Promise.all(sending);
    return sending.length;
  }

  async function arrivalsOf(others: readonly Webhook[], count: number): Promise<readonly Arrival[]> {
    await eventually(
      () => Math.min(...others.map(({ calls }) => calls.length)),
      (fewest) => fewest >= count,
    );
    return others
      .flatMap(({ calls }) => calls)
      .map(({ at, body }) => {
        const { sent_at: sentAt } = body.event.properties as { sent_at: number };
        return { sentAt, tookMs: at - sentAt };
      });
  }

  /** Entries in the retry topics, of all deliveries. */
  async function writtenToRetryTopics(): Promise<number> {
    const counts = await Promise.all(
      LADDER.map(async (label) => (await entriesOf(tributary, retryTopic(label))).length),
    );
    return counts.reduce((sum, count) => sum + count, 0);
  }
});

/**
 * Makes a destination fail until it recovers, and from then on counts its concurrent calls; each takes 5 ms.
 */
function countAtATime(webhook: Webhook) {
  let [now, most] = [0, 0];
  webhook.behave((_call, response) => void response.writeHead(503).end());
  return {
    most: () => most,
    recover: () =>
      webhook.behave((_call, response) => {
        most = Math.max(most, ++now);
        setTimeout(() => {
          now--;
          response.writeHead(204).end();
        }, 5);
      }),
  };
}

function told(latencies: readonly number[]): string {
  return `${latencies.length} events, p50 ${percentile(latencies, 0.5)} ms, p99 ${percentile(latencies, 0.99)} ms`;
}
