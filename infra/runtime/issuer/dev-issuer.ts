import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type JsonWebKey,
  type KeyObject,
} from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { nameId } from '@tributary/core';
import type { TrustedIssuer } from '@tributary/gateway';
import { createLocalJWKSet, SignJWT } from 'jose';
import type { Config } from '../config/settings.ts';
import { createOnce } from '../process/data-folder.ts';

const ISSUER = 'tributary-dev';
const AUDIENCE = 'tributary';
const ALGORITHM = 'ES256';
const LIFETIME_SECONDS = 3600;

/** The person whose workspace `tributary dev` prints. */
export const DEVELOPER = 'dev@tributary.localhost';

/** Issues ID tokens for trying Tributary out. Never enabled in production: its key can sign in as anyone. */
export interface DevIssuer {
  readonly trusted: TrustedIssuer;
  /** An ID token of one hour for a person; the same address is the same person. */
  mint(email: string, now?: Date): Promise<string>;
}

/** The issuer with the configured key, else with the key of this data folder (`dev-issuer.json`, created once). */
export function openDevIssuer(config: Pick<Config, 'dataFolder' | 'devIssuerKey'>): DevIssuer {
  const jwk = config.devIssuerKey || createOnce(keyFile(config.dataFolder), makeKey);
  const privateKey = createPrivateKey({ key: JSON.parse(jwk) as JsonWebKey, format: 'jwk' });
  const kid = keyId(privateKey);
  const publicJwk = {
    ...createPublicKey(privateKey).export({ format: 'jwk' }),
    kid,
    alg: ALGORITHM,
    use: 'sig',
  };
  return {
    trusted: {
      issuer: ISSUER,
      audiences: [AUDIENCE],
      algorithms: [ALGORITHM],
      emailDomains: [],
      keys: createLocalJWKSet({ keys: [{ ...publicJwk, kty: 'EC' }] }),
    },
    mint(email, now = new Date()) {
      const issuedAt = Math.floor(now.getTime() / 1000);
      return new SignJWT({ email, email_verified: true })
        .setProtectedHeader({ alg: ALGORITHM, kid, typ: 'JWT' })
        .setIssuer(ISSUER)
        .setAudience(AUDIENCE)
        .setSubject(nameId('dev-issuer', email.toLowerCase()))
        .setIssuedAt(issuedAt)
        .setExpirationTime(issuedAt + LIFETIME_SECONDS)
        .sign(privateKey);
    },
  };
}

/** Whether the issuer has its key already: a configured one, or one that a server has made in this data folder. */
export function hasDevIssuer({
  dataFolder,
  devIssuerKey,
}: Pick<Config, 'dataFolder' | 'devIssuerKey'>): boolean {
  return devIssuerKey !== '' || existsSync(keyFile(dataFolder));
}

function keyFile(dataFolder: string): string {
  return join(dataFolder, 'dev-issuer.json');
}

function makeKey(): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return JSON.stringify(privateKey.export({ format: 'jwk' }));
}

function keyId(privateKey: KeyObject): string {
  const { x, y } = createPublicKey(privateKey).export({ format: 'jwk' });
  return nameId('dev-issuer-key', String(x), String(y));
}
