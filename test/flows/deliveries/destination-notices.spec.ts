import { Webhook as StandardWebhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { type MailServer, startMailServer } from '../../helpers/mail-server.ts';
import { OWNER, startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

interface Destination {
  readonly id: string;
  readonly settings: { readonly secret?: string };
}

/** Of a member: it needs no confirmation. */
const ADDRESS = OWNER;

/** The owners of a destination get one notice when it turns unhealthy. */
describe('Notices about destinations', () => {
  let tributary: Tributary;
  let mails: MailServer;
  let crm: Webhook;
  let ops: Webhook;
  let opsSecret: string;
  let crmId: string;
  beforeAll(async () => {
    [mails, crm, ops] = await Promise.all([startMailServer({ plain: true }), startWebhook(), startWebhook()]);
    tributary = await startTributary({
      env: {
        TRIBUTARY_ALERT_AFTER: '1s',
        TRIBUTARY_RETRY_SCHEDULE: '400ms,800ms',
        TRIBUTARY_SMTP_URL: `smtp://127.0.0.1:${mails.port}`,
        TRIBUTARY_MAIL_FROM: 'tributary@example.com',
      },
    });
    const channel = await destination({ name: 'Ops', type: 'webhook', settings: { url: ops.url } });
    opsSecret = channel.settings.secret ?? '';
    const alerts = { destination_id: channel.id, email: ADDRESS };
    crmId = (await destination({ name: 'CRM', type: 'webhook', settings: { url: crm.url }, alerts })).id;
    await tributary.owner.post('./event-forwarding-rules', {
      name: 'all',
      destination_id: crmId,
      event_types: [],
      event_names: [],
      transformation_id: null,
      enabled: true,
    });
  });
  afterAll(async () => {
    await tributary.remove();
    await Promise.all([crm.close(), ops.close(), mails.stop()]);
  });

  const destination = (body: object) => tributary.owner.post<Destination>('./destinations', body);
  const send = async (count: number) => {
    for (let n = 0; n < count; n++)
      await tributary.producer.post('./events/track', { event: 'Paid', user_id: `u${n}` });
  };
  const timesTold = () => Math.min(ops.calls.length, mails.taken.length);
  const health = () =>
    tributary.owner.get<{ state: string; failed_share: number; notice: { state: string } }>(
      `./destinations/${crmId}/health`,
    );
  const noticed = async () => (await health()).notice.state;

  it('a failing destination is reported once, by a signed webhook and a mail', async () => {
    expect(await noticed()).toBe('well');
    crm.behave((_call, response) => response.writeHead(503).end('no'));
    await send(3);
    await eventually(timesTold, (times) => times >= 1);
    const call = ops.calls[0];
    const verified = new StandardWebhook(opsSecret).verify(
      call?.text ?? '',
      call?.headers as Record<string, string>,
    );
    expect(verified).toMatchObject({
      type: 'event',
      event: {
        type: 'track',
        event: 'Destination Bad',
        properties: {
          state: 'bad',
          because: expect.stringMatching(/^(failing|circuit_open)$/),
          destination: { id: crmId, name: 'CRM', type: 'webhook' },
          workspace: { id: tributary.workspaceId },
          last_errors: expect.arrayContaining([
            expect.objectContaining({ reason: 'answered 503', status: 503 }),
          ]),
        },
      },
    });
    expect(mails.taken[0]).toMatchObject({ to: [ADDRESS], from: 'tributary@example.com' });
    expect(mails.taken[0]?.headers.subject).toEqual(['Destination unhealthy: CRM']);
    expect(mails.taken[0]?.text).toContain('answered 503');
    expect(mails.taken[0]?.text).not.toContain('://');
    expect(await noticed()).toBe('bad');
  });
});
