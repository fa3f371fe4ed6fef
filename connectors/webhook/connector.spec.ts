import { Webhook } from 'standardwebhooks';
import { expect, test } from 'vitest';
import { sampleDelivery } from '../delivery.fixture.ts';
import { composeMessage, readSettings, rotated, settingsFaults, withSecret } from './connector.ts';

const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
const pathsOf = (settings: Parameters<typeof settingsFaults>[0]) =>
  settingsFaults(settings).map(({ path }) => path);

test('good settings have no fault and are read with their defaults', () => {
  const settings = { url: 'https://a.example/x?y=1', secret };
  expect(settingsFaults(settings)).toEqual([]);
  expect(readSettings(settings)).toMatchObject({ secret, headers: [], batchSize: 1 });
});

test.each([
  'https://',
  'https://user@a.example',
  'https://u:p@a.example',
  'https://:p@a.example',
  'https://a b',
])('the URL %s is refused', (url) => {
  expect(pathsOf({ url, secret })).toEqual(['/url']);
  expect(readSettings({ url, secret })).toBeUndefined();
});

test.each(['file:///etc/passwd', '/relative', 'gopher://a.example'])('%s is no web address', (url) => {
  expect(pathsOf({ url, secret })).toEqual(['/url']);
});

test('a secret has 24 to 64 bytes in base64', () => {
  const of = (bytes: number) => `whsec_${Buffer.alloc(bytes).toString('base64')}`;
  expect([24, 32, 64].flatMap((bytes) => pathsOf({ secret: of(bytes) }))).toEqual([]);
  for (const bad of [of(23), of(65), 'whsec_', 'plain', secret.slice(6), `${secret} `, `${secret}!`]) {
    expect(pathsOf({ secret: bad })).toEqual(['/secret']);
  }
});

test.each([
  'Host',
  'content-length',
  'Connection',
  'transfer-encoding',
  'TE',
  'Webhook-Id',
  'webhook-anything',
  'Expect',
])('the header %s may not be set', (name) => {
  expect(pathsOf({ headers: { [name]: 'x' } })).toEqual([`/headers/${name}`]);
  expect(readSettings({ url: 'https://a.example', secret, headers: { [name]: 'x' } })).toBeUndefined();
});

test('a header given twice in two spellings is refused', () => {
  expect(pathsOf({ headers: { 'X-Team': 'a', 'x-team': 'b', authorization: 'c' } })).toEqual([
    '/headers/x-team',
  ]);
});

test('a secret is made when absent, and only then', () => {
  const random = (bytes: number) => new Uint8Array(bytes).fill(1);
  const made = withSecret({ url: 'https://a.example' }, random);
  expect(made).toEqual({
    url: 'https://a.example',
    secret: `whsec_${Buffer.alloc(32, 1).toString('base64')}`,
  });
  expect(withSecret(made, random)).toBe(made);
});

test.each([0, -1, Number.NaN, '5'])('a batch size of %s never reaches the connector', (batch_size) => {
  expect(readSettings({ url: 'https://a.example', secret, batch_size })).toBeUndefined();
});

const secretOf = (byte: number) => `whsec_${Buffer.alloc(32, byte).toString('base64')}`;
const [A, B, C] = [secretOf(1), secretOf(2), secretOf(3)];
const NOW = Date.parse('2026-03-01T12:00:00.000Z');
const HOUR = 3_600_000;
const url = 'https://hooks.example.com/';

const secretsIn = (settings: ReturnType<typeof rotated>) =>
  ((settings.previous_secrets ?? []) as { secret: string }[]).map(({ secret }) => secret);

test('a secret that is replaced signs on for a day, or as long as the settings say', () => {
  expect(rotated({ url, secret: A }, { url, secret: B }, NOW)).toEqual({
    url,
    secret: B,
    previous_secrets: [{ secret: A, until: '2026-03-02T12:00:00.000Z' }],
    rotation_until: '2026-03-02T12:00:00.000Z',
  });
  const longer = rotated({ url, secret: A }, { url, secret: B, rotation_hours: 72 }, NOW);
  expect(longer.rotation_until).toBe('2026-03-04T12:00:00.000Z');
});

test('only valid signs are kept: no expired ones, the present one, four at most', () => {
  const once = rotated({ secret: A }, { secret: B }, NOW);
  expect(secretsIn(rotated(once, { ...once, secret: C }, NOW + HOUR))).toEqual([B, A]);
  expect(secretsIn(rotated(once, { ...once, secret: C }, NOW + 25 * HOUR))).toEqual([B]);
  expect(rotated(once, once, NOW + 25 * HOUR)).toEqual({ secret: B });
  expect(secretsIn(rotated(once, { ...once, secret: A }, NOW + HOUR))).toEqual([B]);
  let settings = once;
  for (let byte = 4; byte < 12; byte++)
    settings = rotated(settings, { ...settings, secret: secretOf(byte) }, NOW + byte);
  expect(secretsIn(settings)).toEqual([10, 9, 8, 7].map(secretOf));
});

test('after a leak none signs beside the new one, at once', () => {
  const once = rotated({ secret: A }, { secret: B }, NOW);
  expect(rotated({ secret: A }, { secret: B, rotation_hours: 0 }, NOW)).toEqual({
    secret: B,
    rotation_hours: 0,
  });
  expect(rotated(once, { ...once, rotation_hours: 0 }, NOW)).toEqual({ secret: B, rotation_hours: 0 });
  expect(rotated(once, { secret: B }, NOW)).toEqual({ secret: B });
});

/** The headers and the body of a request that is made at `now`, signed with A's successor B. */
function signed(rotatedAt: number, now: number) {
  const settings = readSettings({ url, ...rotated({ secret: A }, { secret: B }, rotatedAt) });
  if (settings === undefined) throw new Error('not valid');
  const { headers, body } = composeMessage(settings, [sampleDelivery('d')], now);
  const pairs = headers.flatMap((name, at) => (at % 2 === 0 ? [[name, headers[at + 1] ?? '']] : []));
  return { headers: Object.fromEntries(pairs) as Record<string, string>, body: String(body) };
}

test('retries were refused by a receiver that has the old secret still, or the new one already', () => {
  const { headers, body } = signed(Date.now(), Date.now());
  for (const secret of [A, B]) expect(new Webhook(secret).verify(body, headers)).toMatchObject({ id: 'd' });
  expect(() => new Webhook(C).verify(body, headers)).toThrow();
});

test('the old secret ceases to sign when its time is over, with no change of the settings', () => {
  const signaturesAt = (now: number) => signed(NOW, now).headers['webhook-signature']?.split(' ').length;
  expect([NOW + 23 * HOUR, NOW + 24 * HOUR].map(signaturesAt)).toEqual([2, 1]);
});

const TRACEPARENT = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;

/** The trace contexts in a request, with these headers in the settings. */
function sent(traceparent: string | undefined, headers: Readonly<Record<string, string>> = {}) {
  const secret = `whsec_${Buffer.alloc(32, 1).toString('base64')}`;
  const settings = readSettings({ url: 'https://hooks.example.com/', secret, headers });
  if (settings === undefined) throw new Error('not valid');
  const message = composeMessage(settings, [sampleDelivery('d')], 0, traceparent);
  return message.headers.filter((_, at) => message.headers[at - 1] === 'traceparent');
}

test('a request has the trace context of a sampled delivery, and none otherwise', () => {
  expect(sent(TRACEPARENT)).toEqual([TRACEPARENT]);
  expect(sent(undefined)).toEqual([]);
});

test('a trace context that the settings set is sent alone', () => {
  expect(sent(TRACEPARENT, { Traceparent: 'own' })).toEqual(['own']);
});
