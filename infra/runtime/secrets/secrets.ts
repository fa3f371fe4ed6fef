import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import {
  type ConnectorDestination,
  type Destination,
  isSealed,
  type Json,
  type JsonObject,
  type KeyRing,
  parseKeyRing,
  SECRET_KEY_BYTES,
  seal,
  unseal,
} from '@tributary/core';
import { ConfigError } from '../config/config.ts';
import { createOnce } from '../config/create-once.ts';
import type { Config } from '../config/settings.ts';

/** Seals and opens the secret settings of destinations. */
export interface Secrets {
  seal(destinationId: string, settings: JsonObject, secrets: readonly string[]): JsonObject;
  /** Throws when no key opens a setting. */
  unseal(destination: Destination): ConnectorDestination;
}

/**
 * The key ring of the configuration, else the one of this data folder (`secret-keys.json`, made once), which exists
 * beside the development issuer only: a production process without keys refuses to start.
 */
export function openSecrets(config: Pick<Config, 'secretKeys' | 'devIssuer' | 'dataFolder'>): Secrets {
  const ring = keyRing(config);
  return {
    seal: (destinationId, settings, secrets) =>
      mapSettings(settings, (name, value) =>
        secrets.includes(name) && value !== null && !isSealed(value)
          ? { ...seal(ring, { destinationId, path: `/${name}` }, value) }
          : value,
      ),
    unseal: ({ id, workspace_id, version, settings }) => ({
      id,
      workspaceId: workspace_id,
      version,
      settings: mapSettings(settings, (name, value) => open(ring, id, name, value)),
    }),
  };
}

function keyRing({
  secretKeys,
  devIssuer,
  dataFolder,
}: Pick<Config, 'secretKeys' | 'devIssuer' | 'dataFolder'>): KeyRing {
  if (secretKeys === '' && !devIssuer) {
    throw new ConfigError(['TRIBUTARY_SECRET_KEYS is needed where the development issuer is off']);
  }
  const text =
    secretKeys || (JSON.parse(createOnce(join(dataFolder, 'secret-keys.json'), makeKeys)) as string);
  const parsed = parseKeyRing(text);
  if (!parsed.ok) throw new ConfigError(parsed.errors.map((error) => `TRIBUTARY_SECRET_KEYS: ${error}`));
  return parsed.ring;
}

function makeKeys(): string {
  return JSON.stringify(`local:${randomBytes(SECRET_KEY_BYTES).toString('base64')}`);
}

function open(ring: KeyRing, destinationId: string, name: string, value: Json): Json {
  if (!isSealed(value)) return value;
  const opened = unseal(ring, { destinationId, path: `/${name}` }, value);
  if (!opened.ok)
    throw new Error(`the setting ${name} of destination ${destinationId} cannot be opened: ${opened.fault}`);
  return opened.value;
}

function mapSettings(settings: JsonObject, change: (name: string, value: Json) => Json): JsonObject {
  return Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, change(name, value)]));
}
