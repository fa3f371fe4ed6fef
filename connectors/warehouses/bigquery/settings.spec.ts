import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { bigquery, serviceAccountIn } from './settings.ts';

function pem(bits: number): string {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: bits });
  return String(privateKey.export({ type: 'pkcs8', format: 'pem' }));
}

const EC = String(
  generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }),
);
const GOOD = { type: 'service_account', client_email: 'a@b.example.com', private_key: pem(2_048) };

describe('the key of a service account', () => {
  it('is the JSON that Google gives, of which the token address may be absent', () => {
    const account = serviceAccountIn(JSON.stringify(GOOD, null, 2));
    expect(account).toMatchObject({ email: 'a@b.example.com' });
    expect(account?.tokenUrl.href).toBe('https://oauth2.googleapis.com/token');
  });

  it.each([
    ['a text', 'key'],
    ['a list', '[]'],
    ['the JSON of a user', JSON.stringify({ ...GOOD, type: 'authorized_user' })],
    ['without an address of the account', JSON.stringify({ ...GOOD, client_email: 1 })],
    ['without PEM', JSON.stringify({ ...GOOD, private_key: 'MIIE' })],
    ['with a key of another kind', JSON.stringify({ ...GOOD, private_key: EC })],
    ['with a short key', JSON.stringify({ ...GOOD, private_key: pem(1_024) })],
    ['with a token address that is none', JSON.stringify({ ...GOOD, token_uri: 'file:///etc/passwd' })],
  ])('is refused: %s', (_title, service_account_key) => {
    const settings = { project: 'project-1', service_account_key };
    expect(bigquery.read(settings)).toBeUndefined();
    expect(bigquery.description.check?.(settings)).toEqual([
      { path: '/service_account_key', message: expect.stringContaining('service account') },
    ]);
  });

  it('is beside settings with their defaults', () => {
    const settings = { project: 'example.com:project-1', service_account_key: JSON.stringify(GOOD) };
    expect(bigquery.read(settings)).toMatchObject({
      location: 'US',
      load_every: '5m',
      max_event_tables: 500,
    });
    expect(bigquery.read({ ...settings, load_every: '10s' })).toBeUndefined();
    expect(bigquery.read({ ...settings, dataset: 'a`b' })).toBeUndefined();
    expect(bigquery.read({ ...settings, endpoint: 'https://api.example.com/path' })).toBeUndefined();
  });
});
