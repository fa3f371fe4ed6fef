import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { type MailServer, startMailServer } from '../../helpers/mail-server.ts';
import { postgresServer, postgresSettings } from '../../helpers/postgres.ts';
import { OWNER, startTributary, type Tributary } from '../../helpers/tributary.ts';

interface Standing {
  readonly loaded_until: string | null;
  readonly waiting_events: number;
  readonly failure: { readonly code: string; readonly reason: string } | null;
}

/** Nothing listens there. */
const NO_PORT = 1;

const server = await postgresServer();

describe.skipIf(server === undefined)('A warehouse that is down', () => {
  const settings = {
    ...postgresSettings(server),
    port: NO_PORT,
    schema: 'down',
    load_every: '10s',
  };
  let tributary: Tributary;
  let mails: MailServer;
  let id: string;
  beforeAll(async () => {
    mails = await startMailServer({ plain: true });
    tributary = await startTributary({
      env: {
        TRIBUTARY_ALERT_AFTER: '1s',
        TRIBUTARY_SMTP_URL: `smtp://127.0.0.1:${mails.port}`,
        TRIBUTARY_MAIL_FROM: 'tributary@example.com',
      },
    });
    const body = { name: 'Analytics', type: 'warehouse-postgresql', settings, alerts: { email: OWNER } };
    id = (await tributary.owner.post<{ id: string }>('./destinations', body)).id;
  });
  afterAll(async () => {
    await tributary.remove();
    await Promise.all([mails.stop(), server?.stop()]);
  });

  const standing = () => tributary.owner.get<Standing>(`./warehouse/${id}`);
  const state = async () =>
    (await tributary.owner.get<{ state: string }>(`./destinations/${id}/health`)).state;
  const gauge = async (name: string) => {
    const text = await tributary.metrics();
    return Number(new RegExp(`^${name}\\{destination="${id}"\\} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN);
  };

  it('is reported to its owner by one mail with the reason', async () => {
    await tributary.producer.post('./events/track', { event: 'Paid', user_id: 'u' });
    const [mail] = await eventually(
      () => mails.taken,
      ({ length }) => length > 0,
    );
    expect(mail?.headers.subject).toEqual(['Destination unhealthy: Analytics']);
    expect(mail?.to).toEqual([OWNER]);
    const { failure, loaded_until, waiting_events } = await eventually(
      standing,
      (found) => found.failure !== null && found.waiting_events > 0,
    );
    expect(failure?.code).toBe('unavailable');
    expect(mail?.text).toContain(failure?.reason);
    expect({ loaded_until, waiting_events }).toEqual({ loaded_until: null, waiting_events: 1 });
    await eventually(state, (found) => found === 'failing');
    expect(mails.taken).toHaveLength(1);
  }, 120_000);

  it('alerts the operator once nothing was loaded for two of its intervals', async () => {
    expect(await gauge('tributary_warehouse_load_every_seconds')).toBe(10);
    await eventually(
      () => gauge('tributary_warehouse_seconds_since_load'),
      (seconds) => seconds > 20,
      120_000,
    );
  }, 150_000);

  it('catches up once it is back, and is healthy', async () => {
    const mended = { settings: { port: postgresSettings(server).port, password: settings.password } };
    await tributary.owner.ok('PATCH', `./destinations/${id}`, mended);
    await eventually(
      standing,
      ({ loaded_until, failure, waiting_events }) =>
        loaded_until !== null && failure === null && waiting_events === 0,
      120_000,
    );
    await eventually(
      () => gauge('tributary_warehouse_seconds_since_load'),
      (seconds) => seconds < 20,
      120_000,
    );
    // The history follows the log.
    const [load] = await eventually(
      () => tributary.owner.get<readonly { rows: object }[]>(`./warehouse/${id}/loads?status=loaded`),
      ({ length }) => length > 0,
    );
    expect(load?.rows).toMatchObject({ paid: 1, tracks: 1 });
  }, 300_000);
});
