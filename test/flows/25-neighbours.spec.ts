// Runs alone: it compares paces and latencies.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { percentile } from '../bench/table.ts';
import { eventually } from '../helpers/client.ts';
import { startTributary, type Tributary } from '../helpers/tributary.ts';
import { type Behaviour, startWebhook, type Webhook } from '../helpers/webhook.ts';

const IS_LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;
const GOOD = 16;
/** Events a second, each of which goes to every destination. */
const PACE = 20;
const SECONDS = IS_LONG ? 60 : 5;
const KILLED_DELIVERIES = IS_LONG ? 100_000 : 2_000;
const KILLS = IS_LONG ? 12 : 2;
/** A latency that a pause of the machine alone can make, ms. */
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

/** What one destination does, and a crash, is never another destination's trouble. */
describe('25. Neighbours', () => {
  const webhooks: Webhook[] = [];
  let tributary: Tributary;
  afterEach(async () => {
    await tributary.remove();
    for (const webhook of webhooks.splice(0)) await webhook.close();
  });

  async function receiver(behaviour?: Behaviour): Promise<Webhook> {
    const webhook = await startWebhook(behaviour);
    webhooks.push(webhook);
    return webhook;
  }

  async function destinationAt(url: string, limits: object = {}): Promise<string> {
    const body = { name: url, type: 'webhook', settings: { url }, ...limits };
    return (await tributary.owner.post<{ id: string }>('./destinations', body)).id;
  }

  async function forward(eventName: string, destinationId: string): Promise<void> {
    await tributary.owner.post('./event-forwarding-rules', {
      name: `${eventName} to ${destinationId}`,
      destination_id: destinationId,
      event_types: ['track'],
      event_names: [eventName],
      transformation_id: null,
      enabled: true,
    });
  }

  /** Sends events evenly and answers how many there were. */
  async function sendEvenly(event: string, seconds: number): Promise<number> {
    const count = PACE * seconds;
    const startedAt = performance.now();
    const sending: Promise<unknown>[] = [];
    for (let n = 0; n < count; n++) {
      await sleep(Math.max(0, startedAt + (n * 1_000) / PACE - performance.now()));
      const properties = { sent_at: Date.now() };
      sending.push(tributary.producer.post('./events/track', { event, user_id: `u${n}`, properties }));
    }
    await Promise.all(sending);
    return count;
  }

  /** What the webhooks see of events of this name while they are sent. */
  async function measure(event: string, good: readonly Webhook[]): Promise<Figures> {
    await sendEvenly(event, 3); // warms up: circuits open, lanes are found
    for (const webhook of good) (webhook.calls as unknown[]).length = 0;
    const startedAt = Date.now();
    const count = await sendEvenly(event, SECONDS);
    await eventually(
      () => Math.min(...good.map((webhook) => webhook.calls.length)),
      (fewest) => fewest >= count,
      30_000,
    );
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

  it('sixteen good destinations keep their pace and their latency beside four bad ones', async () => {
    tributary = await startTributary();
    const good = await Promise.all(Array.from({ length: GOOD }, () => receiver()));
    for (const { url } of good) {
      const id = await destinationAt(url);
      await forward('Alone', id);
      await forward('Beside', id);
    }
    const bad = await Promise.all(BAD.map(([, behaviour]) => receiver(behaviour)));
    for (const { url } of bad) await forward('Beside', await destinationAt(url));

    const alone = await measure('Alone', good);
    const beside = await measure('Beside', good);
    const told = ({ perSecond, p50, p99 }: Figures) =>
      `${perSecond.toFixed(0)}/s, p50 ${p50} ms, p99 ${p99} ms`;
    const calls = bad.map((webhook, n) => `${BAD[n]?.[0]} ${webhook.calls.length}`).join(', ');
    console.log(
      `${GOOD} good ones: alone ${told(alone)}; beside ${told(beside)}; calls to the bad: ${calls}`,
    );
    for (const webhook of bad) expect(webhook.calls.length).toBeGreaterThan(0);
    expect(beside.perSecond).toBeGreaterThan(alone.perSecond * 0.9);
    expect(beside.p99).toBeLessThan(Math.max(alone.p99 * 2, PAUSE_MS));
  }, 300_000);

  it('a destination is called no faster than it may be, and its deliveries are pending, not failed', async () => {
    tributary = await startTributary({ env: { TRIBUTARY_RETRY_LADDER: '1s,2s,5s' } });
    const limited = await receiver();
    await forward('Limited', await destinationAt(limited.url, { rate_limit_per_second: 10 }));
    const batch = Array.from({ length: 60 }, (_, n) => ({
      type: 'track',
      event: 'Limited',
      user_id: `u${n}`,
    }));
    await tributary.producer.post('./events/batch', { batch });
    await eventually(
      () => limited.calls.length,
      (calls) => calls === 60,
      60_000,
    );
    const at = limited.calls.map((call) => call.at);
    const most = Math.max(
      ...at.map((from) => at.filter((other) => other >= from && other < from + 1_000).length),
    );
    const took = (at.at(-1) ?? 0) - (at[0] ?? 0);
    console.log(`60 deliveries at 10 a second: at most ${most} in a second, all after ${took} ms`);
    expect(most).toBeLessThanOrEqual(13);
    expect(took).toBeLessThan(15_000);
    expect(await tributary.owner.get('./deliveries?status=retrying')).toEqual([]);
    expect(new Set(limited.deliveries().map(({ event }) => event.message_id)).size).toBe(60);
  }, 120_000);

  it(`loses none of ${KILLED_DELIVERIES} deliveries in ${KILLS} kills, and repeats few, with their keys`, async () => {
    tributary = await startTributary();
    const good = await Promise.all(Array.from({ length: 4 }, () => receiver()));
    const failing = await receiver((_call, response) => void response.writeHead(500).end());
    for (const { url } of [...good, failing]) await forward('Killed', await destinationAt(url));
    const events = KILLED_DELIVERIES / 5;
    const share = Math.ceil(events / (KILLS + 1));
    const repeats: string[] = [];
    for (let kill = 0; kill <= KILLS; kill++) {
      for (let sent = 0; sent < share; sent += 400) {
        const batch = Array.from({ length: Math.min(400, share - sent) }, (_, n) => {
          const id = `k${kill}-${sent + n}`;
          return { type: 'track', event: 'Killed', user_id: id, message_id: id };
        });
        await tributary.producer.post('./events/batch', { batch });
      }
      if (kill === KILLS) break;
      await sleep(100 + Math.random() * 600);
      const killedAt = Date.now();
      await tributary.kill();
      // What was delivered in the last second and not stored yet, and what was under way.
      const inFlight = good.reduce(
        (sum, { calls }) => sum + calls.filter(({ at }) => at > killedAt - 1_000).length,
        64,
      );
      const before = repeated(good);
      tributary = await startTributary({ folder: tributary.folder });
      await sleep(500);
      const now = repeated(good) - before;
      repeats.push(`${now} of at most ${inFlight}`);
      expect(now).toBeLessThanOrEqual(inFlight);
    }
    const expected = share * (KILLS + 1);
    await eventually(
      () => Math.min(...good.map((webhook) => new Set(webhook.deliveries().map(({ id }) => id)).size)),
      (fewest) => fewest >= expected,
      240_000,
    );
    console.log(`${expected * 5} deliveries, ${KILLS} kills: repeated ${repeats.join('; ')}`);
    for (const webhook of good) {
      const keys = new Map(webhook.deliveries().map(({ id, event }) => [id, event.message_id]));
      expect(keys.size).toBe(expected);
      expect(new Set(keys.values()).size).toBe(expected);
    }
    // What the failing one did not take is retrying: as many as there are, each once.
    const retrying = await eventually(
      async () => (await all('status=retrying')).length,
      (count) => count >= expected,
      60_000,
    );
    expect(retrying).toBe(expected);
  }, 600_000);

  /** Calls that brought a delivery which was brought before. */
  function repeated(good: readonly Webhook[]): number {
    return good.reduce((sum, webhook) => {
      const ids = webhook.deliveries().map(({ id }) => id);
      return sum + ids.length - new Set(ids).size;
    }, 0);
  }

  /** Every delivery of a list, page by page. */
  async function all(query: string): Promise<readonly { id: string }[]> {
    const found: { id: string }[] = [];
    for (let path: string | undefined = `./deliveries?limit=1000&${query}`; path !== undefined; ) {
      const answer: Awaited<ReturnType<typeof tributary.owner.call<{ id: string }[]>>> =
        await tributary.owner.call<{ id: string }[]>('GET', path);
      found.push(...answer.body);
      path = nextIn(answer.headers.get('link'));
    }
    return found;
  }
});

function nextIn(link: string | null): string | undefined {
  const url = /<([^>]+)>; rel="next"/.exec(link ?? '')?.[1];
  return url === undefined ? undefined : `./deliveries?${url.split('?')[1]}`;
}
