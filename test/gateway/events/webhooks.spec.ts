import { createHmac, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { gzipSync } from 'node:zlib';
import { TokenBuckets } from '@tributary/core';
import { Webhook } from 'standardwebhooks';
import { afterEach, expect, it, vi } from 'vitest';
import { openTestGateway } from '../../helpers/gateway.ts';
import { type Sent, sendCall } from '../../helpers/segment-client.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
const owner = await test.openWorkspace();
afterEach(() => vi.restoreAllMocks());

/** The public collection of payloads of GitHub, by event. */
const COLLECTION = createRequire(import.meta.url).resolve('@octokit/webhooks-examples');
const collection = JSON.parse(readFileSync(COLLECTION, 'utf8')) as readonly {
  readonly name: string;
  readonly examples: readonly {
    readonly action?: string;
    readonly sender?: { readonly login: string };
  }[];
}[];

const MASK = '********';
const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const OTHER = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD';
const HMAC = { header: 'X-Sig', algorithm: 'sha1', encoding: 'hex', prefix: '' };

interface Source {
  readonly id: string;
  readonly webhook: { readonly secrets: readonly string[] } | null;
}

const make = (webhook: object | null) =>
  owner.call<Source>('POST', './sources', { name: 'A service', type: 'service', webhook });

/** A source with a webhook, and the address for its sender. */
async function receiver(webhook: Readonly<Record<string, unknown>> & { readonly kind: string }) {
  const secrets = webhook.kind === 'none' ? [] : [SECRET];
  const { body: source } = await make({ secrets, ...webhook });
  const key = await owner.writeKey({ source_id: source.id, webhooks_only: true });
  const url = `/webhooks/${key}/${webhook.kind}`;
  return {
    source,
    key,
    url,
    send: (payload: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Sent> =>
      sendCall(test, url, payload, headers),
  };
}

const github = (payload: string | Buffer, secret = SECRET) => ({
  'x-github-event': 'push',
  'x-github-delivery': randomUUID(),
  'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(payload).digest('hex')}`,
});

const TAKEN = { status: 200, body: { accepted: 1, rejected: [] } };

it('all payloads of the public collection of GitHub are accepted, with their names and ids', async () => {
  const { send } = await receiver({ kind: 'github', user_id: '/sender/login' });
  let count = 0;
  for (const { name, examples } of collection)
    for (const payload of examples) {
      const body = JSON.stringify(payload);
      const headers = { ...github(body), 'x-github-event': name };
      const sent = await send(body, headers);
      const { action, sender } = payload;
      expect(sent, name).toMatchObject(TAKEN);
      expect(sent.events).toMatchObject([
        {
          type: 'track',
          event: action === undefined ? name : `${name}.${action}`,
          message_id: headers['x-github-delivery'],
          ...(sender !== undefined && { user_id: sender.login }),
        },
      ]);
      expect(sent.events[0]?.properties).toEqual(payload);
      count++;
    }
  expect(count).toBeGreaterThan(300);
});

it('the library of Standard Webhooks signs what is accepted', async () => {
  const { send } = await receiver({ kind: 'standard', secrets: [OTHER, SECRET] });
  const payload = '{"type":"contact.created","timestamp":"2026-01-01T00:00:00Z","data":{"n":1.10}}';
  const now = new Date(test.clock.now());
  const headersOf = (at: Date, body = payload) => ({
    'webhook-id': 'msg_1',
    'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
    'webhook-signature': new Webhook(SECRET).sign('msg_1', at, body),
  });
  const sent = await send(payload, headersOf(now));
  expect(sent).toMatchObject(TAKEN);
  expect(sent.events).toMatchObject([
    { event: 'contact.created', message_id: 'msg_1', timestamp: '2026-01-01T00:00:00.000Z' },
  ]);
  expect(await send(payload, headersOf(new Date(now.getTime() - 400_000)))).toMatchObject({
    status: 401,
    body: { error: 'not authenticated', details: [{ path: 'webhook-timestamp' }] },
    events: [],
  });
  expect((await send(`${payload} `, headersOf(now))).status).toBe(401);
});

it('a form of GitHub is accepted by the signature of its own bytes', async () => {
  const { send } = await receiver({ kind: 'github' });
  const payload = { ref: 'refs/heads/ä&b', size: 12_345_678_901_234_567_890n.toString() };
  const body = new URLSearchParams({ payload: JSON.stringify(payload) }).toString();
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  const sent = await send(body, { ...github(body), ...form });
  expect(sent).toMatchObject(TAKEN);
  expect(sent.events).toMatchObject([{ event: 'push', properties: payload }]);
  expect(await send('a=b', { ...github('a=b'), ...form })).toMatchObject({ status: 400, events: [] });
});

it('a form of another sender has its fields as properties', async () => {
  const { send } = await receiver({ kind: 'none', user_id: '/From' });
  const form = { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' };
  const sent = await send('From=%2B491&tag=a&tag=b&__proto__=x', form);
  expect(sent.events).toMatchObject([{ user_id: '+491', properties: { From: '+491', tag: ['a', 'b'] } }]);
  expect(await send(`a=${'b'.repeat(100_000)}`, form)).toMatchObject({ status: 413, events: [] });
});

it('a signature is that of the bytes: inflated, with a byte order mark, and not UTF-8', async () => {
  const { send } = await receiver({ kind: 'github' });
  const plain = Buffer.from('\ufeff{"n":1.0, "big":12345678901234567890}');
  const marked = await send(plain, github(plain));
  expect(marked).toMatchObject(TAKEN);
  expect(JSON.stringify(marked.events[0]?.properties)).toContain('"big":12345678901234567');
  const zipped = { 'content-encoding': 'gzip' };
  expect(await send(gzipSync(plain), { ...github(plain), ...zipped })).toMatchObject(TAKEN);
  expect((await send(gzipSync(plain), { ...github(gzipSync(plain)), ...zipped })).status).toBe(401);
  const latin = Buffer.from('{"name":"caf\u00e9"}', 'latin1');
  const sent = await send(latin, github(latin));
  expect(sent.events).toMatchObject([
    {
      properties: { name: 'caf\ufffd' },
      context: { tributary: { changed: [{ path: '/name', change: 'replaced' }] } },
    },
  ]);
});

it('numbers keep their digits', async () => {
  const { url } = await receiver({ kind: 'none' });
  const append = vi.spyOn(test.dependencies.log, 'append');
  for (const payload of ['{"id":12345678901234567890}', '[{"id":12345678901234567890}]'])
    await test.app.inject({ method: 'POST', url, payload });
  const texts = append.mock.calls.flatMap(([, entries]) => entries.map(({ value }) => String(value)));
  expect(texts).toHaveLength(2);
  for (const text of texts) expect(text).toContain('"properties":{"id":12345678901234567890}');
});

it('a list of an unsigned sender or of a plain HMAC is an event each, and a repeated one has the same ids', async () => {
  const { send } = await receiver({ kind: 'hmac', hmac: HMAC });
  const body = '[{"n":1},{"n":1},5,{"n":2}]';
  const signed = { 'x-sig': createHmac('sha1', SECRET).update(body).digest('hex') };
  const [first, second] = [await send(body, signed), await send(body, signed)];
  expect(first).toMatchObject({
    status: 200,
    body: {
      accepted: 3,
      rejected: [
        { index: 2, error: 'invalid request', details: [{ path: '', message: 'must be an object' }] },
      ],
    },
  });
  const ids = first.events.map(({ message_id }) => message_id);
  expect(new Set(ids).size).toBe(3);
  expect(second.events.map(({ message_id }) => message_id)).toEqual(ids);
});

it.each([['5'], ['null'], ['"text"'], ['true'], ['{'], [''], ['[7]']])(
  'a body that is no object is refused: %s',
  async (body) => {
    const { send } = await receiver({ kind: 'none' });
    expect(await send(body)).toMatchObject({ status: 400, body: { error: 'invalid request' }, events: [] });
  },
);

it('a list is refused where the vendor sends none', async () => {
  const { send } = await receiver({ kind: 'github' });
  expect((await send('[{}]', github('[{}]'))).status).toBe(400);
});

it('a payload that is larger than an event is refused', async () => {
  const { send } = await receiver({ kind: 'github' });
  const body = JSON.stringify({ text: 'x'.repeat(1_000_000) });
  expect(await send(body, github(body))).toMatchObject({
    status: 413,
    body: { error: 'payload too large' },
    events: [],
  });
  expect((await send(body, github(body, OTHER))).status).toBe(401);
});

it('a long header that each event of a list would have is refused', async () => {
  const { send } = await receiver({ kind: 'none', event: 'X-Event' });
  const list = JSON.stringify(Array.from({ length: 2_500 }, () => ({})));
  expect(await send(list, { 'x-event': 'e'.repeat(10_000) })).toMatchObject({ status: 413, events: [] });
  expect(await send(list, { 'x-event': 'e' })).toMatchObject({ status: 200, body: { accepted: 2_500 } });
  expect(await send(`[${'{},'.repeat(2_500)}{}]`)).toMatchObject({ status: 400, events: [] });
});

it('a wrong signature is 401, names the header, and consumes no quota', async () => {
  const events = new TokenBuckets({ perSecond: 1, burst: 1, clock: () => 0 });
  const { dependencies } = test;
  const limited = await openTestGateway({ dependencies: { ...dependencies, limits: { events } } });
  try {
    const { url } = await receiver({ kind: 'github' });
    const send = (headers: Readonly<Record<string, string>>) => sendCall(limited, url, '{}', headers);
    for (let time = 0; time < 3; time++) {
      const refused = await send(github('{}', OTHER));
      expect(refused).toMatchObject({
        status: 401,
        body: {
          error: 'not authenticated',
          details: [
            {
              path: 'X-Hub-Signature-256',
              message: 'is not the signature of this body by a secret of the source',
            },
          ],
        },
      });
      expect(refused.headers['www-authenticate']).toContain('X-Hub-Signature-256');
    }
    expect((await send(github('{}'))).status).toBe(200);
    expect((await send(github('{}'))).status).toBe(429);
  } finally {
    await limited.app.close();
  }
});

it('a repeated header is 401, as sent by a proxy that adds one', async () => {
  const { url } = await receiver({ kind: 'github' });
  const { 'x-hub-signature-256': right = '' } = github('{}');
  const response = await test.app.inject({
    method: 'POST',
    url,
    headers: { 'x-hub-signature-256': [right, right] as never },
    payload: '{}',
  });
  expect(response.statusCode).toBe(401);
});

it('a source without a webhook of the kind is 409 with a reason', async () => {
  const { key, source, url, send } = await receiver({ kind: 'github' });
  const said = (message: string) => ({
    status: 409,
    body: { error: 'conflict', reason: 'no_webhook', details: [{ path: '', message }] },
    events: [],
  });
  expect(await sendCall(test, `/webhooks/${key}/stripe`, '{}', {})).toMatchObject(
    said('the webhook of the source is of the kind github'),
  );
  await owner.ok('PATCH', `./sources/${source.id}`, { webhook: null });
  expect(await send('{}', github('{}'))).toMatchObject(said('the source of the write key has no webhook'));
  const lone = await owner.writeKey();
  expect(await sendCall(test, url.replace(key, lone), '{}', {})).toMatchObject(
    said('the write key of the address belongs to no source'),
  );
});

it('a key that is revoked, unknown or no write key is refused, whatever the headers say', async () => {
  const { key, url } = await receiver({ kind: 'none' });
  const authorization = `Bearer ${key}`;
  for (const other of ['x', `${key}x`, randomUUID()])
    expect((await sendCall(test, url.replace(key, other), '{}', { authorization })).status).toBe(401);
  const { token = '' } = await owner.withApiKey('admin');
  expect((await sendCall(test, url.replace(key, token), '{}', { authorization })).status).toBe(403);
  // A header belongs to the sender.
  expect((await sendCall(test, url, '{}', { authorization: 'Basic eDp5' })).status).toBe(200);
  const [{ id } = { id: '' }] = await owner.ok<{ id: string }[]>('GET', './event-keys');
  await owner.ok('DELETE', `./event-keys/${id}`);
  expect((await sendCall(test, url, '{}', {})).status).toBe(401);
});

it('a key for webhooks sends nothing that is not signed', async () => {
  const { key } = await receiver({ kind: 'github' });
  const authorization = `Bearer ${key}`;
  const event = { type: 'track', event: 'Forged', user_id: 'u' };
  for (const [url, body] of [
    ['/v1/track', { userId: 'u', event: 'Forged' }],
    ['/v1/batch', { batch: [event] }],
    [`/api/v1/workspaces/${owner.workspaceId}/events/batch`, { batch: [event] }],
  ] as const)
    expect(await sendCall(test, url, body, { authorization })).toMatchObject({ status: 403, events: [] });
  expect(
    await sendCall(test, '/v1/track', { userId: 'u', event: 'Forged', writeKey: key }, {}),
  ).toMatchObject({ status: 403, events: [] });
  const body = { name: 'x', environment: 'production', webhooks_only: true };
  expect(await owner.call('POST', './event-keys', body)).toMatchObject({
    status: 400,
    body: { details: [{ path: '/source_id' }] },
  });
});

it('a key of development has its environment, and that of another workspace reaches its own source alone', async () => {
  const { source } = await receiver({ kind: 'none' });
  const key = await owner.writeKey({ source_id: source.id, environment: 'development' });
  const sent = await sendCall(test, `/webhooks/${key}/none`, '{}', {});
  expect(sent.events).toMatchObject([{ environment: 'development', source_id: source.id }]);
  const stranger = await test.openWorkspace('stranger@example.com');
  const foreign = { name: 'x', environment: 'production', source_id: source.id };
  expect((await stranger.call('POST', './event-keys', foreign)).status).toBe(400);
});

it('no page may call', async () => {
  const { url } = await receiver({ kind: 'none' });
  const headers = { origin: 'https://example.com', 'access-control-request-method': 'POST' };
  const asked = await test.app.inject({ method: 'OPTIONS', url, headers });
  expect(asked.headers).not.toHaveProperty('access-control-allow-origin');
  const sent = await sendCall(test, url, '{}', { origin: 'https://example.com' });
  expect(sent.headers).not.toHaveProperty('access-control-allow-origin');
});

it('secrets are sealed, shown as masks, and changed one after the other', async () => {
  const { source, url, send } = await receiver({ kind: 'github' });
  const path = `./sources/${source.id}`;
  const stored = () =>
    test.dependencies.catalog.state.entity('source', String(owner.workspaceId), source.id)?.webhook;
  expect(source.webhook).toMatchObject({ kind: 'github', secrets: [MASK] });
  expect(JSON.stringify(stored())).not.toContain(SECRET);
  const accepted = async () => {
    const all = [];
    for (const secret of [SECRET, OTHER])
      all.push((await sendCall(test, url, '{}', github('{}', secret))).status === 200);
    return all;
  };
  const change = (secrets: readonly string[]) => owner.call('PATCH', path, { webhook: { secrets } });
  expect(await accepted()).toEqual([true, false]);
  expect(await change([OTHER, MASK])).toMatchObject({
    status: 200,
    body: { webhook: { secrets: [MASK, MASK] } },
  });
  expect(await accepted()).toEqual([true, true]);
  const kept = stored()?.secrets;
  await owner.ok('PATCH', path, { webhook: { user_id: '/sender/id' } });
  expect(stored()?.secrets).toEqual(kept);
  expect((await change([MASK])).status).toBe(200);
  expect(await accepted()).toEqual([false, true]);
  expect(await change([MASK, MASK])).toMatchObject({
    status: 400,
    body: { details: [{ path: '/webhook/secrets/1' }] },
  });
  expect(await owner.call('PATCH', path, { webhook: { kind: 'shopify' } })).toMatchObject({
    status: 400,
    body: { details: [{ path: '/webhook/secrets/0' }] },
  });
  expect(JSON.stringify(await send('{}'))).not.toContain('whsec_');
});

it('a source whose secrets no key opens is 503, so that its sender repeats the request', async () => {
  const { url } = await receiver({ kind: 'github' });
  const webhookSecrets = () => {
    throw new Error('unknown_key');
  };
  const { dependencies } = test;
  const other = await openTestGateway({ dependencies: { ...dependencies, webhookSecrets } });
  try {
    expect(await sendCall(other, url, '{}', github('{}'))).toMatchObject({
      status: 503,
      body: { error: 'unavailable' },
    });
  } finally {
    await other.app.close();
  }
});
