// Runs alone: it compares rates and latencies.
import { afterEach, describe, expect, it } from 'vitest';
import { percentile } from '../../bench/table.ts';
import { eventually } from '../../helpers/client.ts';
import { measured } from '../../helpers/measured.ts';
import { evenPace } from '../../helpers/pacing.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import {
  type Behaviour,
  destinationAt,
  forward,
  forwardTo,
  Receivers,
  type Webhook,
} from '../../helpers/webhook.ts';

const IS_LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;
const GOOD = 16;
/** Events a second, each delivered to every destination. */
const PACE = 20;
const SECONDS = IS_LONG ? 60 : 3;
/** Latency that a pause of the machine alone can cause, ms. */
const PAUSE_MS = 150;

const BAD: readonly (readonly [name: string, behaviour: Behaviour])[] = [
  ['hanging', (_call, response) => void setTimeout(() => response.writeHead(204).end(), 10_000).unref()],
  ['failing', (_call, response) => void response.writeHead(500).end()],
  ['limiting', (_call, response) => void response.writeHead(429, { 'retry-after': '2' }).end()],
  ['closing', (_call, response) => void response.socket?.destroy()],
];

interface Figures {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
}

/** One slow, broken or dead destination does not delay others. */
describe('Noisy neighbours', () => {
  const receivers = new Receivers();
  let tributary: Tributary;
  afterEach(async () => {
    await tributary.remove();
    await receivers.close();
  });

  /** Sends events evenly and returns their number. */
  async function sendEvenly(event: string, seconds: number): Promise<number> {
    const count = PACE * seconds;
    const due = evenPace(PACE);
    const sending: Promise<unknown>[] = [];
    for (let n = 0; n < count; n++) {
      await due(n);
      const properties = { sent_at: Date.now() };
      sending.push(tributary.producer.post('./events/track', { event, user_id: `u${n}`, properties }));
    }
    await Promise.all(sending);
    return count;
  }

  /** Resolves when each of the webhooks was called so often. */
  async function everywhere(good: readonly Webhook[], count: number, withinMs = 30_000): Promise<void> {
    await eventually(
      () => Math.min(...good.map((webhook) => webhook.calls.length)),
      (fewest) => fewest >= count,
      withinMs,
    );
  }

  /** The events of this name as the webhooks saw them while they were sent. */
  async function measure(event: string, good: readonly Webhook[]): Promise<Figures> {
    // Warm-up: circuits open, slow destinations are detected. A late delivery of it must not count as one of the measurement.
    forgetCalls(good);
    await everywhere(good, await sendEvenly(event, IS_LONG ? 3 : 2));
    forgetCalls(good);
    const startedAt = Date.now();
    await everywhere(good, await sendEvenly(event, SECONDS));
    const calls = good.flatMap((webhook) => webhook.calls);
    const latencies = calls.map(({ at, body }) => {
      const { sent_at } = body.event.properties as { sent_at: number };
      return at - sent_at;
    });
    const seconds = (Math.max(...calls.map(({ at }) => at)) - startedAt) / 1_000;
    return {
      perSecond: calls.length / seconds,
      p50: percentile(latencies, 0.5),
      p99: percentile(latencies, 0.99),
    };
  }

  it('sixteen healthy destinations keep their throughput and latency beside four failing ones', async () => {
    tributary = await startTributary();
    const good = await Promise.all(Array.from({ length: GOOD }, () => receivers.open()));
    for (const { url } of good) {
      const id = await destinationAt(tributary.owner, url);
      await forward(tributary.owner, 'Alone', id);
      await forward(tributary.owner, 'Beside', id);
    }
    const bad = await Promise.all(BAD.map(([, behaviour]) => receivers.open(behaviour)));
    for (const { url } of bad) await forwardTo(tributary.owner, url, 'Beside');

    const told = ({ perSecond, p50, p99 }: Figures) =>
      `${perSecond.toFixed(0)}/s, p50 ${p50} ms, p99 ${p99} ms`;
    const figures = await measured(
      async () => {
        const alone = await measure('Alone', good);
        const beside = await measure('Beside', good);
        const calls = bad.map((webhook, n) => `${BAD[n]?.[0]} ${webhook.calls.length}`).join(', ');
        console.log(
          `${GOOD} good ones: alone ${told(alone)}; beside ${told(beside)}; calls to the bad: ${calls}`,
        );
        return {
          pace: beside.perSecond / alone.perSecond,
          delay: beside.p99 / Math.max(alone.p99 * 2, PAUSE_MS),
        };
      },
      ({ pace, delay }) => pace > 0.9 && delay < 1,
    );
    for (const webhook of bad) expect(webhook.calls.length).toBeGreaterThan(0);
    expect(figures.pace).toBeGreaterThan(0.9);
    expect(figures.delay).toBeLessThan(1);
  }, 300_000);
});

function forgetCalls(webhooks: readonly Webhook[]): void {
  for (const { calls } of webhooks) (calls as unknown[]).length = 0;
}
