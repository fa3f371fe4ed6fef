import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { eventually } from '../helpers/client.ts';
import { Receivers } from '../helpers/receivers.ts';
import { startTributary, type Tributary } from '../helpers/tributary.ts';
import type { Webhook } from '../helpers/webhook.ts';

const IS_LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;
const KILLED_DELIVERIES = IS_LONG ? 100_000 : 2_000;
const KILLS = IS_LONG ? 12 : 2;

/** However fast or slow a destination takes them, and whatever is killed: each delivery comes, and few come twice. */
describe('25. Paced and killed', () => {
  const receivers = new Receivers();
  let tributary: Tributary;
  afterEach(async () => {
    await tributary.remove();
    await receivers.close();
  });

  it('a destination is called no faster than it may be, and its deliveries are pending, not failed', async () => {
    tributary = await startTributary({ env: { TRIBUTARY_RETRY_LADDER: '1s,2s,5s' } });
    const limited = await receivers.open();
    await receivers.forward(
      tributary,
      'Limited',
      await receivers.destinationAt(tributary, limited.url, { rate_limit_per_second: 10 }),
    );
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
    expect(most).toBeLessThanOrEqual(20); // as they arrive on a busy machine; without a limit it is all 60
    expect(took).toBeLessThan(15_000);
    expect(await tributary.owner.get('./deliveries?status=retrying')).toEqual([]);
    expect(new Set(limited.deliveries().map(({ event }) => event.message_id)).size).toBe(60);
  }, 120_000);

  it(`loses none of ${KILLED_DELIVERIES} deliveries in ${KILLS} kills, and repeats few, with their keys`, async () => {
    tributary = await startTributary();
    const good = await Promise.all(Array.from({ length: 4 }, () => receivers.open()));
    const failing = await receivers.open((_call, response) => void response.writeHead(500).end());
    for (const { url } of [...good, failing])
      await receivers.forward(tributary, 'Killed', await receivers.destinationAt(tributary, url));
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
