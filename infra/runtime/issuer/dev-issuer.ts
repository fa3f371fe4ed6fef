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
import type { Environment } from '../config/config.ts';
import type { Config } from '../config/settings.ts';
import { createOnce } from '../process/data-folder.ts';
import { OperatorError } from '../process/lifecycle.ts';
import { addressOf, onThisMachine } from '../process/server-address.ts';
import { adminPort } from '../server/admin-server.ts';

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
function hasDevIssuer({ dataFolder, devIssuerKey }: Pick<Config, 'dataFolder' | 'devIssuerKey'>): boolean {
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

/** No server has used the data folder yet, so nothing would take its tokens. */
export class NoIssuerKey extends OperatorError {
  constructor(folder: string) {
    super(
      `no development server has run on the data folder ${folder}: start one (npm start), or name the folder of the one that runs, which it prints: TRIBUTARY_DATA_DIR=<folder>`,
    );
  }
}

/** The issuer whose tokens the server of the data folder takes. It makes no key: `NoIssuerKey` where there is none. */
export function openExistingIssuer(config: Pick<Config, 'dataFolder' | 'devIssuerKey'>): DevIssuer {
  if (!hasDevIssuer(config)) throw new NoIssuerKey(config.dataFolder);
  return openDevIssuer(config);
}

/** Where a command beside a development server expects it. */
interface ExpectedServer {
  readonly url: string;
  readonly adminUrl: string;
  /** False where the data folder was named and only the default port leads to a server, which may be of another folder. */
  readonly isOfFolder: boolean;
}

type AddressConfig = Pick<
  Config,
  'dataFolder' | 'devIssuerKey' | 'host' | 'port' | 'adminHost' | 'adminPort'
>;

/** The server at `PORT` where that is set, else the one that runs on the data folder, else the one at the default port. */
export function expectServer(config: AddressConfig, environment: Environment): ExpectedServer {
  const isPortNamed = Number(environment.PORT) > 0;
  const running = isPortNamed ? undefined : addressOf(config.dataFolder);
  if (running !== undefined) return { url: running.url, adminUrl: running.adminUrl, isOfFolder: true };
  const isFolderNamed = Boolean(environment.TRIBUTARY_DATA_DIR) || config.devIssuerKey !== '';
  return {
    url: urlOf(config.host, config.port),
    adminUrl: urlOf(config.adminHost, adminPort(config)),
    isOfFolder: isPortNamed || !isFolderNamed,
  };
}

function urlOf(host: string, port: number): string {
  return onThisMachine(`http://${host.includes(':') ? `[${host}]` : host}:${port}`);
}

interface OwnWorkspace {
  readonly id: string;
  readonly name: string;
  readonly role: string;
}

/** A server's answer to the bearer of a token. */
export type TokenTest =
  | { readonly answer: 'none' }
  | { readonly answer: 'refused' }
  | { readonly answer: 'taken'; readonly workspaces: readonly OwnWorkspace[] };

const ANSWER_WITHIN_MS = 5_000;

/**
 * Tries a token by reading the workspaces of its person. `none`: nothing answers there, or no Tributary, or one that is not
 * ready. `refused`: the server has another issuer.
 */
export async function testToken(url: string, token: string): Promise<TokenTest> {
  try {
    const response = await fetch(`${url}/api/v1/workspaces`, {
      headers: { authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
    if (response.status === 401) return { answer: 'refused' };
    if (!response.ok) return { answer: 'none' };
    return { answer: 'taken', workspaces: (await response.json()) as readonly OwnWorkspace[] };
  } catch {
    return { answer: 'none' }; // refused connections, timeouts, and answers of other programs
  }
}

/** The server that answers has another issuer: its data folder is another one, or it is no development server. */
export class TokenRefused extends OperatorError {
  constructor(url: string, { dataFolder, devIssuerKey }: Pick<Config, 'dataFolder' | 'devIssuerKey'>) {
    const issuer = devIssuerKey === '' ? `the data folder ${dataFolder}` : 'TRIBUTARY_DEV_ISSUER_KEY';
    super(
      `the server at ${url} does not take tokens of ${issuer}: name its data folder, which it printed when it started (TRIBUTARY_DATA_DIR=<folder>), or another server (PORT=<port>)`,
    );
  }
}
