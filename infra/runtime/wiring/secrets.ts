import { randomBytes, randomUUID } from 'node:crypto';
import { existsSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type CatalogSource,
  type ConfirmationClaim,
  type ConnectorDestination,
  type Destination,
  isSealed,
  type Json,
  type JsonObject,
  type KeyRing,
  objectIn,
  parseKeyRing,
  SECRET_KEY_BYTES,
  type Sealed,
  type SecretLocation,
  type ServiceTokens,
  seal,
  signConfirmation,
  unseal,
  verifyConfirmation,
} from '@tributary/core';
import { ConfigError } from '../config/config.ts';
import type { Config } from '../config/settings.ts';
import { createOnce, lockFolder } from '../process/data-folder.ts';

/** Seals and unseals the secrets of destinations and sources, and signs the links of mails. */
export interface Secrets {
  seal(destinationId: string, settings: JsonObject, secrets: readonly string[]): JsonObject;
  /** Throws if no key opens a setting. */
  unseal(destination: Destination): ConnectorDestination;
  /** Seals one secret of the webhook of a source. */
  sealWebhookSecret(sourceId: string, secret: string): Sealed;
  /** The secrets of the webhook of a source. Throws if no key opens one of them. */
  webhookSecrets(source: CatalogSource): readonly string[];
  sealTokens(destinationId: string, tokens: ServiceTokens): Sealed;
  /** Undefined for a destination that is not connected. Throws if no key opens its tokens. */
  openTokens(destination: Destination): ServiceTokens | undefined;
  /** A text about the connection of a destination that only `openBegun` for it reads. */
  sealBegun(destinationId: string, begun: JsonObject): string;
  /** Undefined for a text that was not sealed for this destination. */
  openBegun(destinationId: string, text: string): JsonObject | undefined;
  signConfirmation(claim: ConfirmationClaim): string;
  /** Undefined for a token that no key signed, and for one that has expired. */
  confirmationOf(token: string): ConfirmationClaim | undefined;
}

export type KeySettings = Pick<Config, 'secretKeys' | 'devIssuer' | 'dataFolder'>;

/**
 * The configured key ring, else the one of this data folder (`secret-keys.json`, created once), which is allowed with the
 * development issuer only: a production process without keys refuses to start. The file is read again before every seal,
 * and for an unknown key, because another process may have added a key.
 */
export function openSecrets(config: KeySettings): Secrets {
  let ring = readKeyRing(config);
  const refresh = () => {
    ring = readKeyRing(config);
    return ring;
  };
  const open = (location: SecretLocation, sealed: Sealed): Json => {
    let opened = unseal(ring, location, sealed);
    if (!opened.ok && opened.fault === 'unknown_key') opened = unseal(refresh(), location, sealed);
    if (opened.ok) return opened.value;
    const { kind, id, path } = location;
    throw new Error(`the secret ${path} of ${kind} ${id} cannot be opened: ${opened.fault}`);
  };
  return {
    seal: (destinationId, settings, secrets) =>
      mapSettings(settings, (name, value) =>
        secrets.includes(name) && value !== null && !isSealed(value)
          ? { ...seal(refresh(), settingOf(destinationId, name), value) }
          : value,
      ),
    unseal: ({ id, name, workspace_id, version, settings }) => ({
      id,
      name,
      workspaceId: workspace_id,
      version,
      settings: mapSettings(settings, (name, value) =>
        isSealed(value) ? open(settingOf(id, name), value) : value,
      ),
    }),
    sealWebhookSecret: (sourceId, secret) => seal(refresh(), webhookSecretOf(sourceId), secret),
    webhookSecrets: ({ id, webhook }) =>
      (webhook?.secrets ?? []).map((sealed) => String(open(webhookSecretOf(id), sealed))),
    sealTokens: (destinationId, tokens) => seal(refresh(), tokensOf(destinationId), { ...tokens }),
    openTokens: ({ id, connection }) =>
      connection?.tokens === undefined
        ? undefined
        : (objectIn(open(tokensOf(id), connection.tokens)) as unknown as ServiceTokens),
    sealBegun: (destinationId, begun) => seal(refresh(), begunOf(destinationId), begun).$sealed,
    openBegun(destinationId, text) {
      const sealed = { $sealed: text };
      const opened = unseal(ring, begunOf(destinationId), sealed);
      const again = opened.ok ? opened : unseal(refresh(), begunOf(destinationId), sealed);
      return again.ok ? objectIn(again.value) : undefined;
    },
    signConfirmation: (claim) => signConfirmation(refresh(), claim),
    confirmationOf: (token) =>
      verifyConfirmation(ring, token, Date.now()) ?? verifyConfirmation(refresh(), token, Date.now()),
  };
}

export function readKeyRing({ secretKeys, devIssuer, dataFolder }: KeySettings): KeyRing {
  if (secretKeys === '' && !devIssuer) {
    throw new ConfigError(['TRIBUTARY_SECRET_KEYS is needed where the development issuer is off']);
  }
  const parsed = parseKeyRing(secretKeys || readKeyFile(dataFolder));
  if (!parsed.ok) throw new ConfigError(parsed.errors.map((error) => `TRIBUTARY_SECRET_KEYS: ${error}`));
  return parsed.ring;
}

/** The location of a setting of a destination. */
export function settingOf(destinationId: string, name: string): SecretLocation {
  return { kind: 'destination', id: destinationId, path: `/${name}` };
}

/** The location of the tokens of a destination's connection: no setting has such a name. */
export function tokensOf(destinationId: string): SecretLocation {
  return { kind: 'destination', id: destinationId, path: '/connection/tokens' };
}

function begunOf(destinationId: string): SecretLocation {
  return { kind: 'destination', id: destinationId, path: '/connection/begun' };
}

/** The location of all secrets of the webhook of a source, as their places in the list change. */
export function webhookSecretOf(sourceId: string): SecretLocation {
  return { kind: 'source', id: sourceId, path: '/webhook/secrets' };
}

function mapSettings(settings: JsonObject, change: (name: string, value: Json) => Json): JsonObject {
  return Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, change(name, value)]));
}

/** The keys of a data folder: a JSON string in the form of `TRIBUTARY_SECRET_KEYS`. */
export function keyFile(dataFolder: string): string {
  return join(dataFolder, 'secret-keys.json');
}

export function hasKeyFile(dataFolder: string): boolean {
  return existsSync(keyFile(dataFolder));
}

/** The content of the file, which is created with one key if it does not exist. */
export function readKeyFile(dataFolder: string): string {
  return JSON.parse(createOnce(keyFile(dataFolder), () => JSON.stringify(newKey('local')))) as string;
}

/**
 * Adds a new first key and returns its id. The file is replaced atomically. `FolderInUse` while another process does the
 * same: one of two keys added at once would be lost, with all secrets sealed under it.
 */
export function addKeyToFile(dataFolder: string): string {
  const lock = lockFolder(join(dataFolder, 'secret-keys.lock'));
  const file = keyFile(dataFolder);
  const draft = `${file}.${randomUUID()}`;
  try {
    const kid = `local-${randomBytes(4).toString('hex')}`;
    const keys = `${newKey(kid)},${readKeyFile(dataFolder)}`;
    writeFileSync(draft, JSON.stringify(keys), { mode: 0o600, flush: true });
    renameSync(draft, file);
    return kid;
  } finally {
    rmSync(draft, { force: true });
    lock.release();
  }
}

function newKey(kid: string): string {
  return `${kid}:${randomBytes(SECRET_KEY_BYTES).toString('base64')}`;
}
