import type { IncomingHttpHeaders } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { type AlertChange, type Fact, TOPIC } from '@tributary/core';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { entriesOf } from '../../helpers/log-of.ts';
import { type MailServer, startMailServer } from '../../helpers/mail-server.ts';
import { OWNER, startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

/** In each round the alert fires or recovers, and everything is killed twice. */
const ROUNDS = process.env.TRIBUTARY_TEST_LONG === undefined ? 2 : 8;

type Turned = Fact & { readonly type: 'alert.turned'; readonly data: AlertChange };

interface Alert {
  readonly id: string;
  readonly state: string;
}

/**
 * An alert on violations, reported by a signed webhook and by mail while every process is killed again and again: each change
 * is reported once.
 */
describe('Alerts', () => {
  let tributary: Tributary;
  let mails: MailServer;
  let ops: Webhook;
  /** The verified body of each call, or the error; verified on arrival, as a signature is valid for five minutes. */
  const signed: unknown[] = [];
  let alert: Alert;
  let env: Record<string, string>;
  const sent = { all: 0, bad: 0 };

  beforeAll(async () => {
    [mails, ops] = await Promise.all([startMailServer({ plain: true }), startWebhook()]);
    env = {
      TRIBUTARY_ALERT_ROUND: '600ms',
      TRIBUTARY_ALERT_EVERY: '100ms',
      TRIBUTARY_MAIL_EVERY: '1s',
      TRIBUTARY_SMTP_URL: `smtp://127.0.0.1:${mails.port}`,
      TRIBUTARY_MAIL_FROM: 'tributary@example.com',
    };
    tributary = await startTributary({ env });
    const { owner } = tributary;
    const settings = { url: ops.url };
    const channel = await owner.post<{ id: string; settings: { secret: string } }>('./destinations', {
      name: 'Ops',
      type: 'webhook',
      settings,
    });
    ops.behave(({ text, headers }, response) => {
      signed.push(verified(channel.settings.secret, text, headers));
      response.writeHead(204).end();
    });
    await owner.post('./event-contracts', {
      name: 'Orders',
      event_type: 'track',
      event_name: 'Order Placed',
      schema_definition: { properties: { total: { type: 'number', required: true } } },
      enforcement_mode: 'warn',
    });
    alert = await owner.post<Alert>('./alerts', {
      name: 'Bad orders',
      watch: { kind: 'violations', event_name: 'Order Placed', minutes: 30, share: 0.4, minimum: 10 },
      destination_id: channel.id,
      email: OWNER,
    });
  });
  afterAll(async () => {
    await tributary.remove();
    await Promise.all([mails.stop(), ops.close()]);
  });

  /** As many bad, or good, events as make the share of violations 0.5, or 0.3. */
  async function turnTo(wanted: 'firing' | 'ok'): Promise<void> {
    const isBad = wanted === 'firing';
    const count = Math.ceil(isBad ? Math.max(10, sent.all - 2 * sent.bad) : sent.bad / 0.3 - sent.all);
    const batch = Array.from({ length: count }, (_, n) => ({
      type: 'track',
      event: 'Order Placed',
      user_id: `u${n}`,
      properties: isBad ? {} : { total: 1 },
    }));
    await tributary.producer.post('./events/batch', { batch });
    sent.all += count;
    if (isBad) sent.bad += count;
  }

  async function killAfter(ms: number): Promise<void> {
    await sleep(ms);
    await tributary.kill();
    tributary = await startTributary({ folder: tributary.folder, env });
  }

  const state = async () => (await tributary.owner.get<Alert>(`./alerts/${alert.id}`)).state;
  /** For each notice received: the id of its change, and the id it was sent under. */
  const reportedByWebhook = () =>
    ops.calls.map(({ headers, body }) => [body.event.message_id, String(headers['webhook-id'])] as const);
  const mailIds = () => mails.taken.map(({ headers }) => headers['message-id']?.[0] ?? '');

  it(`are reported once for each change through ${2 * ROUNDS} kills, by signed webhooks and mails`, async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const wanted = round % 2 === 0 ? 'firing' : 'ok';
      await turnTo(wanted);
      await killAfter(Math.random() * 1_000); // most likely before it is found
      await eventually(state, (now) => now === wanted, 90_000);
      await killAfter(Math.random() * 150); // while the notice is sent
    }
    const turns = await acceptedTurns();
    expect(turns.map(({ data }) => data.state)).toEqual(
      Array.from({ length: ROUNDS }, (_, n) => (n % 2 === 0 ? 'firing' : 'ok')),
    );
    const ids = turns.map(({ data }) => data.id);
    await eventually(
      () => Math.min(new Set(reportedByWebhook().map(([id]) => id)).size, new Set(mailIds()).size),
      (count) => count >= ids.length,
    );
    // A notice that a kill repeated has the same id.
    const reported = reportedByWebhook();
    expect(new Set(reported.map(([id]) => id))).toEqual(new Set(ids));
    expect(new Set(reported.map((pair) => pair.join(' '))).size).toBe(ids.length);
    expect(new Set(mailIds()).size).toBe(ids.length);
    expect(signed.filter((body) => body instanceof Error)).toEqual([]);
    expect(signed[0]).toMatchObject({
      event: {
        event: 'Alert Firing',
        properties: { state: 'firing', value: 1, limit: 0.4, alert: { id: alert.id, name: 'Bad orders' } },
      },
    });
    expect(new Set(mails.taken.map(({ headers }) => headers.subject?.[0]))).toEqual(
      new Set(['Alert: Bad orders', 'Recovered: Bad orders']),
    );
    expect(tributary.log()).not.toContain(OWNER);
  }, 900_000);

  /** The changes in the catalog: of those proposed on the same state the first. */
  async function acceptedTurns(): Promise<readonly Turned[]> {
    const turns: Turned[] = [];
    for (const { value } of await entriesOf(tributary, TOPIC.catalog)) {
      const fact = JSON.parse(value) as Fact;
      if (fact.type === 'alert.turned' && fact.expected_version === turns.length) turns.push(fact);
    }
    return turns;
  }
});

/** The body of a call; the error where its signature does not hold. */
function verified(secret: string, text: string, headers: IncomingHttpHeaders): unknown {
  try {
    return new StandardWebhook(secret).verify(text, headers as Record<string, string>);
  } catch (error) {
    return error;
  }
}
