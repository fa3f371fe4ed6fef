// Runs alone: it compares latencies.
import { setTimeout as sleep } from 'node:timers/promises';
import { openDevIssuer } from '@tributary/infra';
import { describe, expect, it } from 'vitest';
import { percentile } from '../../bench/table.ts';
import { Child } from '../../helpers/child.ts';
import { eventually } from '../../helpers/client.ts';
import { type MailServer, startMailServer } from '../../helpers/mail-server.ts';
import { measured } from '../../helpers/measured.ts';
import { evenPace } from '../../helpers/pacing.ts';
import { openProfiles, sendTo } from '../../helpers/profile-client.ts';
import { OWNER, startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook } from '../../helpers/webhook.ts';
import type { AttackTask } from './attacker.ts';
import { ATTACKS, type Attack, type ExtraProbe } from './attacks.ts';

const IS_LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;
/** Seconds of each attack. Where they are given, every attack runs; `-t` selects some. */
const GIVEN = process.env.TRIBUTARY_TEST_ATTACK_SECONDS;
const SECONDS = Number(GIVEN ?? (IS_LONG ? 600 : 3));
/** Minutes have what a tenant may use at once, before its share limits it, among the slowest hundredth; seconds do not. */
const BURST_SECONDS = SECONDS < 60 ? 3 : 0;
/** The slowest hundredth of a few calls would be a single one, which a pause of the machine decides. */
const SHARE = SECONDS < 60 ? 0.9 : 0.99;
/**
 * A latency up to this is no harm, ms; beyond it, one that has more than doubled is. In the few seconds of the default run,
 * on a machine that others use, the floor is above the noise and below what a missing bound costs.
 */
const FLOOR_MS = IS_LONG || GIVEN !== undefined ? 50 : 250;
/** Calls of each kind a second. */
const PACE = 10;
const LOST_AFTER_MS = 60_000;

type Kind = 'ingestion' | 'delivery' | 'profile write' | 'search' | 'console' | ExtraProbe;

/** What the overview and the lists of the console read. */
const PAGES = [
  './event-forwarding-rules',
  './funnel',
  './destinations/health',
  './deliveries?status=dead',
  './event-contracts?limit=100',
  './event-volume',
];

interface Neighbour {
  /** Uses every part of the service evenly, and returns the latencies, ms. */
  use(seconds: number): Promise<ReadonlyMap<Kind, readonly number[]>>;
  /** Calls that were refused, and deliveries and mails that never arrived. */
  readonly refused: readonly string[];
  close(): Promise<void>;
}

async function openNeighbour(
  { owner, producer, workspaceId, url }: Tributary,
  mails: MailServer,
  extra: readonly ExtraProbe[],
): Promise<Neighbour> {
  const { client: profiles, id } = await openProfiles(owner, workspaceId, sendTo(url));
  await owner.ok('PATCH', `/organizations/${id}`, { notification_email: OWNER });
  const waiting = new Map<unknown, () => void>();
  const hook = await startWebhook(({ body }, response) => {
    const { event, attempt } = body;
    const isRefused = event.event === 'Repeated' && attempt === 1;
    if (!isRefused) waiting.get(event.user_id)?.();
    response.writeHead(isRefused ? 503 : 204).end();
  });
  const settings = { url: hook.url };
  const made = await owner.post<{ id: string }>('./destinations', { name: 'd', type: 'webhook', settings });
  await owner.post('./event-forwarding-rules', {
    name: 'r',
    destination_id: made.id,
    event_types: ['track'],
  });

  const refused: string[] = [];
  let taken = new Map<Kind, number[]>();
  let last = 0;
  async function timed(kind: Kind, call: () => Promise<unknown>): Promise<void> {
    const began = performance.now();
    await call().catch((error: Error) => refused.push(`${kind}: ${error.message}`));
    taken.set(kind, [...(taken.get(kind) ?? []), performance.now() - began]);
  }
  async function sent(event: string): Promise<void> {
    const user_id = `u${++last}`;
    const arrived = new Promise<void>((resolve, reject) => {
      waiting.set(user_id, resolve);
      setTimeout(() => reject(new Error(`${event} of ${user_id} is lost`)), LOST_AFTER_MS).unref();
    });
    await timed('ingestion', () => producer.post('./events/track', { event, user_id }));
    await arrived;
    waiting.delete(user_id);
  }
  const inProfile = async (user_id: string) => {
    await producer.post('./events/identify', { user_id, traits: { plan: 'pro' } });
    await eventually(
      () => profiles.search({ user_id: [user_id] }),
      ({ length }) => length === 1,
    );
  };
  const mailed = async (AdId: string) => {
    await profiles.write({ AdId });
    const toOwner = () => mails.taken.filter(({ to }) => to.includes(OWNER)).length;
    const before = toOwner();
    await profiles.delete({ AdId: [AdId] }, { sendEmailNotification: true });
    await eventually(toOwner, (count) => count > before);
  };
  /** Calls a second, and the call. */
  const probes: readonly (readonly [Kind, number, (n: number) => Promise<unknown>])[] = [
    ['delivery', PACE, () => sent('Read')],
    [
      'profile write',
      PACE,
      (n) => profiles.write({ AdId: `q${n % 50}` }, { upsert: { profile: { home: { n } } } }),
    ],
    ['search', PACE, (n) => profiles.search({ AdId: [`q${n % 50}`] })],
    ['console', PACE, (n) => owner.get(PAGES[n % PAGES.length] ?? '')],
    ['retry', 2, () => sent('Repeated')],
    ['profile of an event', 2, () => inProfile(`u${++last}`)],
    ['mail', 0.5, () => mailed(`m${++last}`)],
  ];
  const isUsed = (kind: Kind) =>
    !['retry', 'profile of an event', 'mail'].includes(kind) || extra.some((one) => one === kind);
  return {
    refused,
    async use(seconds) {
      taken = new Map();
      await Promise.all(
        probes.map(async ([kind, pace, call]) => {
          if (!isUsed(kind)) return;
          const due = evenPace(pace);
          const running: Promise<void>[] = [];
          for (let n = 0; n < pace * seconds; n++) {
            await due(n);
            running.push(timed(kind, () => call(n)));
          }
          await Promise.all(running);
        }),
      );
      return taken;
    },
    close: () => hook.close(),
  };
}

/** What the attack did to the neighbour: nothing, or a line for each harm. */
async function harmOf(attack: Attack): Promise<readonly string[]> {
  const mails = await startMailServer({ plain: true });
  const tributary = await startTributary({
    env: {
      TRIBUTARY_SMTP_URL: `smtp://127.0.0.1:${mails.port}`,
      TRIBUTARY_MAIL_FROM: 'tributary@example.com',
      TRIBUTARY_PUBLIC_URL: 'https://tributary.example',
      TRIBUTARY_MAIL_EVERY: '1s',
      TRIBUTARY_MAILS_PER_HOUR: '3600',
      // The output of ten minutes has to fit on the disks of any machine.
      TRIBUTARY_WORKSPACE_BYTES_PER_HOUR: '1GiB',
      ...attack.env?.(),
    },
  });
  const { url, folder } = tributary;
  const token = await openDevIssuer({ dataFolder: folder, devIssuerKey: '' }).mint('attacker@example.com');
  const task: AttackTask = { name: attack.name, url, token };
  const attacker = new Child(new URL('./attacker.ts', import.meta.url), [JSON.stringify(task)]);
  const neighbour = await openNeighbour(tributary, mails, attack.probes ?? []);
  try {
    await attacker.wrote(1);
    await neighbour.use(1); // warm-up
    const alone = await neighbour.use(Math.min(SECONDS, 60));
    attacker.go();
    await sleep(BURST_SECONDS * 1_000);
    const beside = await neighbour.use(SECONDS);
    const statuses = Object.entries(attacker.lines.at(-1) ?? {});
    if (!statuses.some(([status]) => Number(status) < 300)) throw new Error(`no attack: ${statuses}`);
    const told: string[] = [];
    const harm = [...new Set(neighbour.refused)];
    for (const [kind, latencies] of beside) {
      const [before, now] = [alone.get(kind) ?? [], latencies].map((some) => percentile(some, SHARE));
      const figure = `${kind} ${before?.toFixed(0)} ms alone, ${now?.toFixed(0)} ms beside`;
      told.push(figure);
      if (!(Number(now) <= Math.max(FLOOR_MS, 2 * Number(before)))) harm.push(figure);
    }
    console.log(`${attack.name}: ${told.join('; ')}; ${statuses.map(([status, n]) => `${n} x ${status}`)}`);
    return harm;
  } finally {
    await attacker.kill();
    await tributary.remove();
    await neighbour.close();
    await mails.stop();
  }
}

/** For everything that tenants share: one that makes the worst use of it is not noticed by its neighbour. */
describe('Beside another tenant', () => {
  it.each(ATTACKS.filter(({ isShort = false }) => IS_LONG || GIVEN !== undefined || isShort))(
    'with $name, latencies at most double beyond a floor, and nothing is refused',
    async (attack) => {
      const harm = await measured(
        () => harmOf(attack),
        ({ length }) => length === 0,
      );
      expect(harm).toEqual([]);
    },
    3 * (SECONDS + 180) * 1_000,
  );
});
