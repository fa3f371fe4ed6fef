import { createPrivateKey, createPublicKey, hash, type KeyObject, sign } from 'node:crypto';
import { WarehouseRefused } from '@tributary/core';
import type { SnowflakeSettings } from './settings.ts';

/** A token is used at once. */
const VALID_SECONDS = 60;

/** What signs a user in: a token that its private key signed, or its password. `now` is epoch ms. */
export function credentials(settings: SnowflakeSettings, now: number): Readonly<Record<string, string>> {
  const { account, username, private_key, private_key_passphrase, password } = settings;
  const named = { ACCOUNT_NAME: accountName(account), LOGIN_NAME: username };
  if (private_key === undefined) return { ...named, PASSWORD: password ?? '' };
  const key = privateKey(private_key, private_key_passphrase);
  return { ...named, AUTHENTICATOR: 'SNOWFLAKE_JWT', TOKEN: signedToken(key, account, username, now) };
}

/** The account without the region that its host has. */
function accountName(account: string): string {
  return (account.split('.')[0] ?? account).toUpperCase();
}

function privateKey(pem: string, passphrase: string | undefined): KeyObject {
  try {
    return createPrivateKey({ key: pem, ...(passphrase === undefined ? {} : { passphrase }) });
  } catch {
    // The error may have parts of the key.
    throw new WarehouseRefused(
      'the private key cannot be read: it is no PEM of a key, or its passphrase is another',
    );
  }
}

function signedToken(key: KeyObject, account: string, username: string, now: number): string {
  const spki = createPublicKey(key).export({ type: 'spki', format: 'der' });
  const subject = `${accountName(account)}.${username.toUpperCase()}`;
  const issued = Math.floor(now / 1_000);
  const claims = {
    iss: `${subject}.SHA256:${hash('sha256', spki, 'base64')}`,
    sub: subject,
    iat: issued,
    exp: issued + VALID_SECONDS,
  };
  const parts = [{ alg: 'RS256', typ: 'JWT' }, claims].map((part) =>
    Buffer.from(JSON.stringify(part)).toString('base64url'),
  );
  const signature = sign('sha256', Buffer.from(parts.join('.')), key).toString('base64url');
  return [...parts, signature].join('.');
}
