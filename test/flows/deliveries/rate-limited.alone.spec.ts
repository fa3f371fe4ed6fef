// Runs alone: it compares the time that deliveries take with the limit of their receiver.
import { afterEach, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { type Behaviour, forwardTo, Receivers, type Webhook } from '../../helpers/webhook.ts';

/** A webhook that takes so many requests a second, and answers 429 to the others. */
class Limited {
  readonly acceptedAt: number[] = [];
  refused = 0;
  readonly perSecond: number;
  readonly headers: Readonly<Record<string, string>>;
  #tokens: number;
  #at = performance.now();

  constructor(perSecond: number, headers: Readonly<Record<string, string>>) {
    this.perSecond = perSecond;
    this.headers = headers;
    this.#tokens = perSecond;
  }

  readonly behaviour: Behaviour = (_call, response) => {
    const now = performance.now();
    this.#tokens = Math.min(this.perSecond, this.#tokens + ((now - this.#at) * this.perSecond) / 1_000);
    this.#at = now;
    if (this.#tokens < 1) {
      this.refused += 1;
      response.writeHead(429, this.headers).end();
      return;
    }
    this.#tokens -= 1;
    this.acceptedAt.push(now);
    response.writeHead(204).end();
  };

  /** A twentieth, and requests under way at the first refusal: on a busy machine they are many. */
  get mayRefuse(): number {
    return 12 + this.acceptedAt.length / 19;
  }
}

const EVENTS = 240;
/** The start of the stages on a busy machine, and waits in a retry topic. */
const AROUND_IT_S = 6;

/** 429 is a pace, not a failure: the receiver gets everything about as fast as its limit allows. */
describe('Destinations that refuse requests for their rate', () => {
  const receivers = new Receivers();
  let tributary: Tributary;
  afterEach(async () => {
    await tributary.remove();
    await receivers.close();
  });

  const forwardBurst = ({ url }: Webhook, settings = {}) =>
    forwardTo(tributary.owner, url, 'Burst', { settings: { url, ...settings } });

  it('got half of a burst after twice the time that their limit allows: their refusals opened the circuit', async () => {
    tributary = await startTributary();
    const asking = new Limited(12, { 'retry-after': '1' });
    const silent = new Limited(14, {});
    // Counts requests of 5 events.
    const batches = new Limited(3, { 'retry-after': '1' });
    const limited = [asking, silent, batches];
    const webhooks = await Promise.all(limited.map(({ behaviour }) => receivers.open(behaviour)));
    const free = await receivers.open();
    const [askingId] = await Promise.all(
      webhooks.map((webhook, n) => forwardBurst(webhook, n === 2 ? { batch_size: 5 } : {})),
    );
    await forwardBurst(free);

    const startedAt = performance.now();
    const sentAt = Date.now();
    const batch = Array.from({ length: EVENTS }, (_, n) => ({
      type: 'track',
      event: 'Burst',
      user_id: `u${n}`,
    }));
    await tributary.producer.post('./events/batch', { batch });
    const seen: { pace_per_second: number | null; throttled_per_second: number }[] = [];
    await eventually(
      async () => {
        seen.push(await tributary.owner.get(`./destinations/${askingId}/health`));
        return limited.map(({ acceptedAt }) => acceptedAt.length);
      },
      ([one = 0, two = 0, three = 0]) => one >= EVENTS && two >= EVENTS && three >= EVENTS / 5,
      120_000,
    );

    for (const { acceptedAt, perSecond, refused, mayRefuse, headers } of limited) {
      const seconds = ((acceptedAt.at(-1) ?? 0) - startedAt) / 1_000;
      const about = `${perSecond}/s ${JSON.stringify(headers)}: ${acceptedAt.length} in ${seconds.toFixed(1)} s, ${refused} refused`;
      console.log(about);
      expect(seconds, about).toBeLessThanOrEqual((acceptedAt.length / perSecond) * 1.2 + AROUND_IT_S);
      expect(refused, about).toBeLessThanOrEqual(mayRefuse);
    }
    // Sooner than any wait in a retry topic; noisy-neighbours.alone.spec.ts compares latencies.
    const waits = free.calls.map(({ at }) => at - sentAt);
    expect(waits).toHaveLength(EVENTS);
    expect(Math.max(...waits)).toBeLessThan(10_000);

    const health = await tributary.owner.get(`./destinations/${askingId}/health`);
    expect(health).toMatchObject({ notice: { state: 'well' }, circuit: 'closed', failed_per_second: 0 });
    const paces = seen.map(({ pace_per_second }) => pace_per_second ?? 0);
    expect(Math.max(...paces)).toBeGreaterThan(6);
    expect(Math.max(...seen.map(({ throttled_per_second }) => throttled_per_second))).toBeGreaterThan(0);
    const delivered = await tributary.owner.get<readonly { attempts: readonly object[] }[]>(
      `./deliveries?status=delivered&destination_id=${askingId}`,
    );
    expect(delivered[0]?.attempts.at(0)).toMatchObject({ outcome: 'retry', status: 429, throttled: true });
    await eventually(
      () => tributary.owner.get<readonly object[]>('./deliveries?status=retrying'),
      ({ length }) => length === 0,
    );
  }, 180_000);
});
