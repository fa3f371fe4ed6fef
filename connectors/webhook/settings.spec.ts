import { expect, test } from 'vitest';
import { readSettings, settingsFaults, withSecret } from './settings.ts';

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
