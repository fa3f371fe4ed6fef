import { setTimeout as sleep } from 'node:timers/promises';
import { type Fact, type HealthChange, TOPIC } from '@tributary/core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { entriesOf } from '../../helpers/log-of.ts';
import { type MailServer, startMailServer } from '../../helpers/mail-server.ts';
import { OWNER, startTributary, type Tributary } from '../../helpers/tributary.ts';
import { destinationAt, forwardTo, Receivers, type Webhook } from '../../helpers/webhook.ts';

/** In each round all destinations turn unhealthy, or recover, and everything is killed. */
const ROUNDS = 8;
const DESTINATIONS = 8;
const EVENTS_EVERY_MS = 100;

type Turned = Fact & { readonly type: 'destination.turned'; readonly data: HealthChange };

/**
 * Processes are killed while destinations turn unhealthy and recover: each health change in the catalog leads
 * to its notice.
 */
describe('Notices about destinations, killed', () => {
  const receivers = new Receivers();
  const sending = new AbortController();
  const destinations: { readonly id: string; readonly webhook: Webhook }[] = [];
  let tributary: Tributary;
  let mails: MailServer;
  let ops: Webhook;
  let env: Record<string, string>;
  let ended: Promise<void>;

  beforeAll(async () => {
    [mails, ops] = await Promise.all([startMailServer({ plain: true }), receivers.open()]);
    env = {
      TRIBUTARY_ALERT_AFTER: '1s',
      TRIBUTARY_ALERT_EVERY: '100ms',
      TRIBUTARY_MAIL_EVERY: '1s',
      TRIBUTARY_MAILS_PER_HOUR: '1000',
      TRIBUTARY_RETRY_SCHEDULE: '400ms,800ms',
      TRIBUTARY_SMTP_URL: `smtp://127.0.0.1:${mails.port}`,
      TRIBUTARY_MAIL_FROM: 'tributary@example.com',
    };
    tributary = await startTributary({ env });
    const channel = await destinationAt(tributary.owner, ops.url);
    const alerts = { destination_id: channel, email: OWNER };
    for (let n = 0; n < DESTINATIONS; n++) {
      const webhook = await receivers.open();
      const id = await forwardTo(tributary.owner, webhook.url, 'Paid', { alerts });
      destinations.push({ id, webhook });
    }
    ended = sendEvents();
  });
  afterAll(async () => {
    sending.abort();
    await ended;
    await tributary.remove();
    await Promise.all([receivers.close(), mails.stop()]);
  });

  it(`reports every change of state, and each as one, in ${2 * ROUNDS} kills`, async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const state = round % 2 === 0 ? 'bad' : 'well';
      for (const { webhook } of destinations)
        webhook.behave(state === 'well' ? undefined : (_call, response) => response.writeHead(503).end());
      await killAfter(Math.random() * 1_500); // most likely before it is detected
      await eventually(
        () => inState(state),
        (count) => count >= 1,
        90_000,
      );
      await killAfter(Math.random() * 150); // while the notice is sent
      await eventually(
        () => inState(state),
        (count) => count === DESTINATIONS,
        90_000,
      );
    }
    sending.abort();
    await ended;
    const turns = await acceptedTurns();
    const ids = turns.map(({ data }) => data.id);
    await eventually(
      () => new Set(toldByWebhook().map(([id]) => id)).size,
      (count) => count >= ids.length,
    );
    await eventually(
      () => new Set(mailed()).size,
      (count) => count >= ids.length,
    );

    const told = toldByWebhook();
    const repeats = `repeated ${told.length - ids.length} webhooks and ${mailed().length - ids.length} notices in mails`;
    console.log(`${turns.length} turns of ${DESTINATIONS} destinations, ${2 * ROUNDS} kills: ${repeats}`);
    expect(turns.length).toBeGreaterThanOrEqual(ROUNDS * DESTINATIONS);
    expect(new Set(told.map(([id]) => id))).toEqual(new Set(ids));
    // A notice repeated after a kill has the same id, and each kill repeats it at most once.
    expect(new Set(told.map((pair) => pair.join(' '))).size).toBe(ids.length);
    expect(new Set(mailed())).toEqual(new Set(turns.map(({ entity, data }) => `${entity} ${data.since}`)));
    for (const { id } of destinations) {
      const states = turns.filter(({ entity }) => entity === id).map(({ data }) => data.state);
      expect(states).toEqual(states.map((_, n) => (n % 2 === 0 ? 'bad' : 'well')));
    }
    for (const times of [told.length, mailed().length])
      expect(times).toBeLessThanOrEqual(ids.length + 2 * ROUNDS * DESTINATIONS);
  }, 900_000);

  async function killAfter(ms: number): Promise<void> {
    await sleep(ms);
    await tributary.kill();
    tributary = await startTributary({ folder: tributary.folder, env });
  }

  async function sendEvents(): Promise<void> {
    for (let n = 0; !sending.signal.aborted; n++) {
      const body = { event: 'Paid', user_id: `u${n}` };
      await tributary.producer.call('POST', './events/track', { body }).catch(() => {}); // the server may be down
      await sleep(EVENTS_EVERY_MS);
    }
  }

  async function inState(wanted: 'bad' | 'well'): Promise<number> {
    const states = await Promise.all(
      destinations.map(({ id }) =>
        tributary.owner.get<{ notice: { state: string } }>(`./destinations/${id}/health`),
      ),
    );
    return states.filter(({ notice }) => notice.state === wanted).length;
  }

  /** The health changes in the catalog: of those proposed on the same state of a destination the first. */
  async function acceptedTurns(): Promise<readonly Turned[]> {
    const taken = new Map<string, number>();
    const turns: Turned[] = [];
    for (const { value } of await entriesOf(tributary, TOPIC.catalog)) {
      const fact = JSON.parse(value) as Fact;
      if (fact.type !== 'destination.turned') continue;
      const before = taken.get(fact.entity) ?? 0;
      if (fact.expected_version !== before) continue;
      taken.set(fact.entity, before + 1);
      turns.push(fact);
    }
    return turns;
  }

  /** For each notice received: the id of its health change, and the id it was sent under. */
  const toldByWebhook = () =>
    ops.calls.map(({ headers, body }) => [body.event.message_id, String(headers['webhook-id'])] as const);
  /** Destination and time of each notice in the mails, alone or together with others. */
  const mailed = () =>
    mails.taken.flatMap(({ text }) =>
      [...text.matchAll(/\(webhook, ([0-9a-f-]{36})\)\s+Since: +(\S+)/g)].map(
        ([, id, since]) => `${id} ${since}`,
      ),
    );
});
