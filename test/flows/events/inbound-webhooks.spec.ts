import { gzipSync } from 'node:zlib';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';

/** A sender repeats a webhook until it is answered with 2xx: each repetition has its own time and signature. */
describe('A webhook of another service', () => {
  let tributary: Tributary;
  let address: string;
  beforeAll(async () => {
    tributary = await startTributary();
    const { owner } = tributary;
    const webhook = { kind: 'standard', secrets: [SECRET], user_id: '/data/user' };
    const { id } = await owner.post<{ id: string }>('./sources', { name: 'CRM', type: 'crm', webhook });
    const wanted = { name: 'CRM', environment: 'production', source_id: id, webhooks_only: true };
    const { key } = await owner.post<{ key: string }>('./event-keys', wanted);
    address = `${tributary.url}/webhooks/${key}/standard`;
  });
  afterAll(() => tributary.remove());

  async function attempt(id: string, secondsAgo: number, body: string, compressed = false): Promise<number> {
    const at = new Date(Date.now() - secondsAgo * 1_000);
    const response = await fetch(address, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'webhook-id': id,
        'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
        'webhook-signature': new Webhook(SECRET).sign(id, at, body),
        ...(compressed && { 'content-encoding': 'gzip' }),
      },
      body: compressed ? gzipSync(body) : body,
    });
    await response.text();
    return response.status;
  }

  it('counts once, however often and however late its sender repeats it', async () => {
    const contact = '{"type":"contact.created","data":{"user":"ada"}}';
    const together = await Promise.all([10, 20, 30].map((ago) => attempt('msg_1', ago, contact)));
    expect(together).toEqual([200, 200, 200]);
    expect(await attempt('msg_1', 0, contact, true)).toBe(200);
    expect(await attempt('msg_1', 400, contact)).toBe(401);
    // Behind the others in the order of the user.
    expect(await attempt('msg_2', 0, '{"type":"contact.deleted","data":{"user":"ada"}}')).toBe(200);
    const volume = await eventually(
      () => tributary.owner.get<readonly { readonly event_name: string }[]>('./event-volume'),
      (counts) => counts.some(({ event_name }) => event_name === 'contact.deleted'),
    );
    expect(volume).toHaveLength(2);
    expect(volume).toContainEqual(expect.objectContaining({ event_name: 'contact.created', event_count: 1 }));
    expect(await tributary.owner.get('./events/msg_1')).toMatchObject({
      event: { event: 'contact.created', user_id: 'ada', context: { webhook: { kind: 'standard' } } },
    });
  });
});
