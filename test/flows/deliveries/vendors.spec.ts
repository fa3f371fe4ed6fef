import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

interface Trace {
  readonly status: string;
  readonly rules: readonly { readonly deliveries: readonly object[] }[];
}

let tributary: Tributary;
let destinationId: string;
beforeAll(async () => {
  tributary = await startTributary();
  const settings = { accountId: '7', apiKey: 'key-0123456789' };
  const body = { name: 'Drip', type: 'segment-drip', settings };
  destinationId = (await tributary.owner.post<{ id: string }>('./destinations', body)).id;
  await tributary.owner.post('./event-forwarding-rules', { name: 'r', destination_id: destinationId });
});
afterAll(() => tributary.remove());

async function traceOf(type: string, fields: object): Promise<Trace> {
  const event = { user_id: 'u', ...fields };
  const sent = await tributary.producer.post<{ message_id: string }>(`./events/${type}`, event);
  return eventually(
    () => tributary.owner.get<Trace>(`./events/${sent.message_id}`),
    ({ status }) => status !== 'under_way' && status !== 'unknown',
    60_000,
  );
}

it('an event without an action was "delivered, first try", and one without an e-mail the 400 of the vendor: neither was sent', async () => {
  expect(await traceOf('group', { group_id: 'g' })).toMatchObject({
    status: 'not_forwarded',
    rules: [{ deliveries: [{ status: 'unwanted', reason: 'not sent: no action takes it', attempts: [] }] }],
  });
  const reason = expect.stringMatching(/^not sent: trackEvent: .*email/);
  const refused = await traceOf('track', { event: 'No E-Mail' });
  expect(refused).toMatchObject({
    status: 'dead',
    rules: [{ deliveries: [{ status: 'dead', reason, attempts: [{ outcome: 'dead', reason }] }] }],
  });
  expect(JSON.stringify(refused)).not.toContain('"status":400');

  const listed = await tributary.owner.get<readonly { status: string }[]>('./deliveries?limit=10');
  expect(listed.map(({ status }) => status).sort()).toEqual(['dead', 'unwanted']);
  const { totals } = await eventually(
    () => tributary.owner.get<{ totals: Readonly<Record<string, unknown>> }>('./funnel'),
    ({ totals: { unwanted, dead } }) => unwanted === 1 && dead === 1,
  );
  expect(totals).toMatchObject({ created: 2, dead: 1, unwanted: 1 });
  const health = await tributary.owner.get<object>(`./destinations/${destinationId}/health`);
  expect(health).toMatchObject({ last_errors: [] });
}, 120_000);
