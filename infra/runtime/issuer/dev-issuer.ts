import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type JsonWebKey,
  type KeyObject,
} from 'node:crypto';
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

/** Issues ID tokens for trying Tributary out. Never enabled in production: its key can sign in as anyone. */
export interface DevIssuer {
  readonly trusted: TrustedIssuer;
  /** An ID token of one hour for a person; the same address is the same person. */
  mint(email: string, now?: Date): Promise<string>;
}

/** The issuer with the configured key, else with the key of this data folder (`dev-issuer.json`, created once). */
export function openDevIssuer(config: Pick<Config, 'dataFolder' | 'devIssuerKey'>): DevIssuer {
  const jwk = config.devIssuerKey || createOnce(join(config.dataFolder, 'dev-issuer.json'), makeKey);
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

function makeKey(): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return JSON.stringify(privateKey.export({ format: 'jwk' }));
}

function keyId(privateKey: KeyObject): string {
  const { x, y } = createPublicKey(privateKey).export({ format: 'jwk' });
  return nameId('dev-issuer-key', String(x), String(y));
}
