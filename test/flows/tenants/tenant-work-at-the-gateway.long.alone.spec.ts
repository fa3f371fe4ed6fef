// Runs alone in the long form: it compares latencies, and checks memory.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { QUOTAS } from '@tributary/core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { percentile } from '../../bench/table.ts';
import { type Answer, type Client, eventually } from '../../helpers/client.ts';
import { evenPace } from '../../helpers/pacing.ts';
import { Receivers } from '../../helpers/receivers.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

/** Events a second of the quiet workspace. */
const PACE = 25;
const SECONDS = 10;
const ROUNDS = 3;
/** Latency that a pause of the machine alone can cause, ms. */
const PAUSE_MS = 150;
const CALLERS = 16;
/** As many as a workspace may have enabled. */
const RULES = QUOTAS.enabled_rules.fallback;
/** Additional memory of the gateway and its stages, MB. */
const MOST_MEMORY_MB = 450;

const times = <Item>(count: number, item: (at: number) => Item) =>
  Array.from({ length: count }, (_, at) => item(at));
const words = (of: number) => times(40, (at) => `w${(at * 7_919 + of * 104_729).toString(36)}`).join('|');

/** The largest allowed contracts, of several kinds; each `of` gives another one. */
const WORST: readonly ((of: number) => object)[] = [
  (of) => ({
    properties: Object.fromEntries(times(620, (at) => [`a${of}_${at}`, { type: 'string', minLength: 1 }])),
  }),
  (of) => ({ patternProperties: Object.fromEntries(times(120, (at) => [`^p${at}.*(x|y)${of}$`, {}])) }),
  (of) => ({
    anyOf: times(200, (at) => ({ properties: { [`a${of}_${at}`]: { type: 'string' } } })),
    unevaluatedProperties: false,
  }),
  (of) => ({ properties: { a: { allOf: times(45, (at) => ({ pattern: `(a|b)*a(a|b){7}${of}_${at}` })) } } }),
  (of) => ({
    properties: Object.fromEntries(
      times(500, (at) => [`e${at}`, { enum: times(19, (n) => `${of}_${at}_${n}`) }]),
    ),
  }),
];
/** Rejected contracts, which must not cost more. */
const REFUSED: readonly ((of: number) => object)[] = [
  (of) => ({
    patternProperties: Object.fromEntries(times(300, (at) => [`^(${words(of * 1_000 + at)})$`, {}])),
  }),
  (of) => ({ properties: { a: { allOf: times(900, (at) => ({ pattern: `(a|b)*a(a|b){9}${of}_${at}` })) } } }),
  () => ({
    properties: Object.fromEntries(
      times(900, (at) => [
        `k${at}`,
        {
          minLength: 1,
          maxLength: 9,
          minimum: 1,
          maximum: 3,
          multipleOf: 2,
          uniqueItems: true,
          format: 'date',
        },
      ]),
    ),
  }),
];

/** Schemas and events that a workspace has the gateway compile and evaluate do not delay others' events. */
describe('The work of tenants at the gateway', () => {
  const receivers = new Receivers();
  let tributary: Tributary;
  let noisy: Client;
  let sender: Client;
  const traced: string[] = [];
  let contracts = 0;

  beforeAll(async () => {
    tributary = await startTributary();
    const { id } = await tributary.owner.post<{ id: string }>('/workspaces', { name: 'Noisy' });
    noisy = tributary.owner.with({ workspaceId: id });
    const { key } = await noisy.post<{ key: string }>('./event-keys', {
      name: 'k',
      environment: 'production',
    });
    sender = noisy.with({ token: key });
  }, 120_000);
  afterAll(async () => {
    await tributary?.remove();
    await receivers.close();
  });

  const contractOf = (schema_definition: object) => {
    contracts += 1;
    const name = `Worst ${contracts}`;
    return { name, event_type: 'track', event_name: name, schema_definition, enforcement_mode: 'block' };
  };

  async function prepare(): Promise<void> {
    const { url } = await receivers.open();
    const { id: destination_id } = await noisy.post<{ id: string }>('./destinations', {
      name: 'd',
      type: 'webhook',
      settings: { url },
      enabled: false,
    });
    const loop = 'event.properties.list.exists(x, x > 8 && x < 3)';
    for (let n = 0; n < RULES; n++)
      await noisy.post('./event-forwarding-rules', {
        name: `r${n}`,
        destination_id,
        event_types: ['track'],
        filter: `${loop} || ${loop} || event.properties.list.size() == ${n}`,
      });
    const list = times(900, (at) => at % 7);
    for (let n = 0; n < CALLERS; n++) {
      const { message_id } = await sender.post<{ message_id: string }>('./events/track', {
        event: 'Traced',
        user_id: `u${n}`,
        properties: { list },
      });
      traced.push(message_id);
    }
    await eventually(
      () => noisy.call('GET', `./events/${traced.at(-1)}`),
      ({ status, body }) => status === 200 && (body as { rules: unknown[] }).rules.length === RULES,
      60_000,
    );
  }

  /** Latencies of the quiet workspace's events until received, ms. */
  async function sendQuietly(seconds: number): Promise<number[]> {
    const taken: number[] = [];
    const due = evenPace(PACE);
    await Promise.all(
      times(PACE * seconds, async (n) => {
        await due(n);
        const sentAt = performance.now();
        await tributary.producer.post('./events/track', { event: 'Quiet', user_id: `u${n}` });
        taken.push(performance.now() - sentAt);
      }),
    );
    return taken;
  }

  /** The call that each of the callers repeats. */
  const attacks: readonly ((n: number) => Promise<Answer>)[] = [
    (n) => noisy.call('GET', `./events/${traced[n % traced.length]}`),
    (n) =>
      noisy.call('POST', './event-contracts', { body: contractOf(REFUSED[n % REFUSED.length]?.(n) ?? {}) }),
    (n) => noisy.call('POST', './event-contracts', { body: contractOf(WORST[n % WORST.length]?.(n) ?? {}) }),
    (n) =>
      noisy.call('POST', './event-contracts?dry_run=true', {
        body: { ...contractOf(WORST[n % WORST.length]?.(n) ?? {}), event_name: '' },
      }),
    (n) =>
      sender.call('POST', './events/batch?check=contract', {
        body: {
          batch: times(100, (at) => ({
            type: 'track',
            event: `Worst ${(at % contracts) + 1}`,
            user_id: `u${n}`,
            properties: { a: 'ab'.repeat(400) },
          })),
        },
      }),
  ];

  it('events of other workspaces are received as fast beside traces, contracts, dry runs and checks of hostile workspaces', async () => {
    await prepare();
    await sendQuietly(1); // warm-up
    const statuses = new Map<unknown, number>();
    let rounds = 0;
    const attackFor = (ms: number) => {
      const until = performance.now() + ms;
      rounds += 1;
      return times(CALLERS, async (caller) => {
        for (let n = rounds * 100_000 + caller; performance.now() < until; n += CALLERS) {
          const attack = attacks[n % attacks.length];
          if (attack === undefined) break;
          const { status } = await attack(n);
          statuses.set(status, (statuses.get(status) ?? 0) + 1);
          if (status === 429 || status === 503) await sleep(50);
        }
      });
    };
    // In alternation, and the best of each: a pause of the machine affects one of them, a blocked thread
    // every one.
    const [alone, beside]: [number[], number[]] = [[], []];
    for (let round = 0; round < ROUNDS; round++) {
      alone.push(percentile(await sendQuietly(SECONDS), 0.99));
      const attacking = attackFor((SECONDS + 0.6) * 1_000);
      await sleep(500);
      beside.push(percentile(await sendQuietly(SECONDS), 0.99));
      await Promise.all(attacking);
    }
    const answered = [...statuses].map(([status, count]) => `${count} x ${status}`).join(', ');
    const told = (figures: readonly number[]) => figures.map((figure) => figure.toFixed(0)).join(', ');
    console.log(`p99 of receiving, ms: ${told(alone)} alone, ${told(beside)} beside; ${answered}`);
    for (const status of [200, 201, 202, 400]) expect(statuses.get(status)).toBeGreaterThan(0);
    expect(statuses.get(500)).toBeUndefined();
    expect(Math.min(...beside)).toBeLessThan(Math.max(Math.min(...alone) * 2, PAUSE_MS));
  }, 180_000);

  it('the most expensive contracts of a workspace take bounded memory, and each of its events is evaluated', async () => {
    const before = residentMb(tributary.pid);
    const made: string[] = [];
    for (let n = 0; n < 100; n++) {
      const contract = contractOf(WORST[n % WORST.length]?.(1_000 + n) ?? {});
      await noisy.post('./event-contracts', contract);
      made.push(contract.event_name);
    }
    for (let round = 0; round < 2; round++)
      for (const event of made) {
        const batch = times(5, (at) => ({
          type: 'track',
          event,
          user_id: `u${at}`,
          properties: { a: 'ab'.repeat(500 + at), [`p${at}zzx9`]: 1 },
        }));
        await sender.post('./events/batch?check=contract', { batch });
        await sender.post('./events/batch', { batch });
      }
    const { message_id } = await sender.post<{ message_id: string }>('./events/track', {
      event: 'Last',
      user_id: 'u1',
    });
    await eventually(
      () => noisy.call('GET', `./events/${message_id}`),
      ({ status, body }) => status === 200 && 'accepted' in (body as object),
      60_000,
    );
    const more = residentMb(tributary.pid) - before;
    console.log(
      `memory: ${before} MB before, ${more} MB more with ${made.length} of the worst contracts in use`,
    );
    expect(more).toBeLessThan(MOST_MEMORY_MB);
  }, 180_000);
});

function residentMb(pid: number): number {
  const kb = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Math.round(Number(kb) / 1_024);
}
