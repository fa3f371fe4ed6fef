import { expect, it } from 'vitest';
import { suiteGateway } from '../suite-gateway.ts';

const MASK = '********';

const test = await suiteGateway();
const owner = await test.openWorkspace();

interface Destination {
  readonly id: string;
}

const stored = (id: string) =>
  test.dependencies.catalog.state.entity('destination', String(owner.workspaceId), id)?.settings ?? {};

const CA = '-----BEGIN CERTIFICATE-----\n';
const BROKER = { brokers: ['kafka.example.com:9093'], topic: 't', username: 'u' };
const DATABASE = { host: 'db.example.com', database: 'd', username: 'u' };
const STREAM = { host: 'cache.example.com', stream: 's', username: 'u' };
const BUCKET = { bucket: 'events', access_key_id: 'AKIA' };
const POSTHOG = { project_id: '1', endpoint: 'https://us.i.posthog.com' };

it.each([
  ['kafka', 'password', BROKER, { sasl_mechanism: 'plain' }, 'sasl_mechanism is weaker'],
  ['kafka', 'password', BROKER, { sasl_mechanism: 'scram-sha-256' }, 'sasl_mechanism is weaker'],
  [
    'kafka',
    'password',
    { ...BROKER, sasl_mechanism: 'scram-sha-256' },
    { sasl_mechanism: 'plain' },
    'sasl_mechanism is weaker',
  ],
  ['kafka', 'password', BROKER, { tls: false }, 'tls is weaker'],
  ['kafka', 'password', BROKER, { ca: CA }, 'ca is another'],
  ['kafka', 'password', BROKER, { username: 'admin' }, 'username is another'],
  [
    'kafka',
    'password',
    BROKER,
    { brokers: [...BROKER.brokers, 'mine.example.com:9093'] },
    'brokers is another',
  ],
  ['postgres', 'password', DATABASE, { tls: false }, 'tls is weaker'],
  ['postgres', 'password', DATABASE, { port: 6432 }, 'port is another'],
  ['postgres', 'password', { ...DATABASE, ca: CA }, { ca: null }, 'ca is another'],
  ['postgres', 'password', DATABASE, { username: 'postgres' }, 'username is another'],
  ['redis', 'password', STREAM, { tls: false }, 'tls is weaker'],
  ['redis', 'password', STREAM, { host: 'mine.example.com' }, 'host is another'],
  [
    'elasticsearch',
    'password',
    { url: 'https://es.example.com', index: 'i', username: 'u' },
    { url: 'http://es.example.com' },
    'url is another',
  ],
  [
    'webhook',
    'headers',
    { url: 'https://hooks.example.com/in' },
    { url: 'http://hooks.example.com/in' },
    'url is another',
  ],
  ['s3', 'secret_access_key', BUCKET, { endpoint: 'http://s3.example.com' }, 'endpoint is another'],
  ['s3', 'secret_access_key', BUCKET, { bucket: 'of-somebody-else' }, 'bucket is another'],
  ['segment-posthog', 'api_key', POSTHOG, { endpoint: 'https://eu.i.posthog.com' }, 'endpoint is another'],
] as const)(
  'a change that weakens the transport of a secret or its recipient requires it again: %s %s %j %j',
  async (type, secret, settings, change, because) => {
    const stated = secret === 'headers' ? { authorization: 'Bearer x' } : 'a-password-of-long-standing';
    const asked = (of: object) => ({ name: 'x', type, settings: of });
    const { id } = await owner.ok<Destination>(
      'POST',
      './destinations',
      asked({ ...settings, [secret]: stated }),
    );
    const put = (of: object) => owner.call('PUT', `./destinations/${id}`, asked(of));
    const details = [{ path: `/settings/${secret}`, message: `must be stated again, as ${because}` }];
    for (const kept of [{}, { [secret]: MASK }])
      expect(await put({ ...settings, ...change, ...kept })).toMatchObject({
        status: 400,
        body: { details },
      });
    expect(await put({ ...settings, ...change, [secret]: stated })).toMatchObject({ status: 200 });
  },
);

it('a change that secures the transport of a secret keeps it', async () => {
  const settings = { ...BROKER, sasl_mechanism: 'plain', tls: false };
  const asked = (of: object) => ({ name: 'x', type: 'kafka', settings: of });
  const { id } = await owner.ok<Destination>('POST', './destinations', asked({ ...settings, password: 'p' }));
  const { password } = stored(id);
  for (const safer of [
    { ...settings, sasl_mechanism: 'scram-sha-256' },
    { ...BROKER, tls: true },
  ])
    expect(await owner.call('PUT', `./destinations/${id}`, asked(safer))).toMatchObject({ status: 200 });
  expect(stored(id).password).toEqual(password);
});

it('the secret of a webhook was replaced at once, so its receiver refused every retry', async () => {
  const secretOf = (byte: number) => `whsec_${Buffer.alloc(24, byte).toString('base64')}`;
  const url = 'https://hooks.example.com/in';
  const asked = (of: object) => ({ name: 'x', type: 'webhook', settings: { url, ...of } });
  const { id } = await owner.ok<Destination>('POST', './destinations', asked({ secret: secretOf(1) }));
  const put = async (of: object) => {
    const { settings } = await owner.ok<{ settings: Record<string, unknown> }>(
      'PUT',
      `./destinations/${id}`,
      asked(of),
    );
    const { catalog, unseal } = test.dependencies;
    const known = catalog.state.entity('destination', String(owner.workspaceId), id);
    if (known === undefined) throw new Error('gone');
    return { shown: settings, opened: unseal(known).settings };
  };
  const rotated = await put({ secret: secretOf(2) });
  expect(rotated.shown).toMatchObject({ secret: MASK, previous_secrets: MASK });
  const hoursLeft = (Date.parse(String(rotated.shown.rotation_until)) - Date.now()) / 3_600_000;
  expect(Math.round(hoursLeft)).toBe(24);
  expect(rotated.opened).toMatchObject({
    secret: secretOf(2),
    previous_secrets: [{ secret: secretOf(1), until: rotated.shown.rotation_until }],
  });
  expect(JSON.stringify(stored(id))).not.toContain(secretOf(1));

  // Any other change keeps them, also a new URL: they only sign.
  const again = await put({ ...rotated.shown, url: 'https://other.example.com/in', batch_size: 7 });
  expect(again.opened).toMatchObject({ secret: secretOf(2), previous_secrets: [{ secret: secretOf(1) }] });
  expect((await put({})).shown).toMatchObject({ rotation_until: rotated.shown.rotation_until });

  // An explicit null removes them at once.
  const ended = await put({ previous_secrets: null });
  expect(Object.keys(ended.shown).sort()).toEqual(['secret', 'url']);
  expect((await put({ secret: secretOf(3), rotation_hours: 0 })).opened).toEqual({
    url,
    secret: secretOf(3),
    rotation_hours: 0,
  });
});
