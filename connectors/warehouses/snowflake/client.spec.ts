import { createHash, generateKeyPairSync, verify } from 'node:crypto';
import { Unavailable, WarehouseRefused } from '@tributary/core';
import { expect, it } from 'vitest';
import { StatementRefused } from '../merging/dialect.ts';
import { credentials, failureOfCode } from './client.ts';

it.each([
  ['390100', 'Incorrect username or password', WarehouseRefused],
  ['390144', 'JWT token is invalid', WarehouseRefused],
  ['390112', 'Your session has expired', Unavailable],
  ['390104', 'User must login again', Unavailable],
  ['000606', 'No active warehouse selected', WarehouseRefused],
  ['000625', 'Statement has locked table', Unavailable],
  ['000630', 'Statement reached its timeout', Unavailable],
  ['091016', 'Remote file was not found', Unavailable],
  ['370001', 'Internal error', Unavailable],
  ['300002', 'Internal error', Unavailable],
  ['000904', "SQL compilation error: invalid identifier 'ELEMENTS'", Unavailable],
  ['002003', "SQL compilation error:\nTable 'X' does not exist or not authorized.", Unavailable],
  ['002003', "SQL compilation error:\nDatabase 'X' does not exist or not authorized.", StatementRefused],
  ['003001', 'SQL access control error: Insufficient privileges', StatementRefused],
  ['100072', 'NULL result in a non-nullable column', StatementRefused],
  ['', '', StatementRefused],
])('code %s: %s', (code, message, type) => {
  expect(failureOfCode(code, message)).toBeInstanceOf(type);
});

const settings = {
  account: 'myorg-analytics',
  username: 'loader',
  warehouse: 'W',
  database: 'D',
  load_every: '5m',
  max_event_tables: 500,
};
const NOW = 1_709_208_000_000;

it('a token names the user and its public key, is signed by the private one, and ends soon', () => {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
  const cipher = { cipher: 'aes-256-cbc', passphrase: 'phrase' };
  const private_key = String(privateKey.export({ type: 'pkcs8', format: 'pem', ...cipher }));
  const { TOKEN = '', ...rest } = credentials(
    { ...settings, private_key, private_key_passphrase: 'phrase' },
    NOW,
  );
  expect(rest).toEqual({
    ACCOUNT_NAME: 'MYORG-ANALYTICS',
    LOGIN_NAME: 'loader',
    AUTHENTICATOR: 'SNOWFLAKE_JWT',
  });
  const [head = '', claims = '', signature = ''] = TOKEN.split('.');
  expect(
    verify('sha256', Buffer.from(`${head}.${claims}`), publicKey, Buffer.from(signature, 'base64url')),
  ).toBe(true);
  const spki = publicKey.export({ type: 'spki', format: 'der' });
  const fingerprint = createHash('sha256').update(spki).digest('base64');
  expect(JSON.parse(String(Buffer.from(claims, 'base64url')))).toEqual({
    iss: `MYORG-ANALYTICS.LOADER.SHA256:${fingerprint}`,
    sub: 'MYORG-ANALYTICS.LOADER',
    iat: NOW / 1_000,
    exp: NOW / 1_000 + 60,
  });
});

it('a locator is named without its region, and a password is sent as it is', () => {
  expect(credentials({ ...settings, account: 'xy12345.eu-central-1', password: 'secret' }, NOW)).toEqual({
    ACCOUNT_NAME: 'XY12345',
    LOGIN_NAME: 'loader',
    PASSWORD: 'secret',
  });
});

it('a key that cannot be read is told without its text', () => {
  const private_key = '-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----';
  expect(() => credentials({ ...settings, private_key }, NOW)).toThrow(WarehouseRefused);
  expect(() => credentials({ ...settings, private_key }, NOW)).not.toThrow(/c2VjcmV0/);
});
