import {
  type ConnectorDestination,
  type Destination,
  isSealed,
  type Json,
  type JsonObject,
  type KeyRing,
  parseKeyRing,
  seal,
  unseal,
} from '@tributary/core';
import { ConfigError } from '../config/config.ts';
import type { Config } from '../config/settings.ts';
import { readKeyFile } from './key-file.ts';

/** Seals and opens the secret settings of destinations. */
export interface Secrets {
  seal(destinationId: string, settings: JsonObject, secrets: readonly string[]): JsonObject;
  /** Throws when no key opens a setting. */
  unseal(destination: Destination): ConnectorDestination;
}

export type KeySettings = Pick<Config, 'secretKeys' | 'devIssuer' | 'dataFolder'>;

/**
 * The key ring of the configuration, else the one of this data folder (`secret-keys.json`, made once), which exists
 * beside the development issuer only: a production process without keys refuses to start. The file is read again
 * before something is sealed, and where a key is not known: another process may have put a new one first.
 */
export function openSecrets(config: KeySettings): Secrets {
  let ring = readKeyRing(config);
  const refresh = () => {
    ring = readKeyRing(config);
    return ring;
  };
  return {
    seal: (destinationId, settings, secrets) =>
      mapSettings(settings, (name, value) =>
        secrets.includes(name) && value !== null && !isSealed(value)
          ? { ...seal(refresh(), { destinationId, path: `/${name}` }, value) }
          : value,
      ),
    unseal: ({ id, workspace_id, version, settings }) => ({
      id,
      workspaceId: workspace_id,
      version,
      settings: mapSettings(settings, (name, value) => open(ring, refresh, id, name, value)),
    }),
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

function open(ring: KeyRing, refresh: () => KeyRing, destinationId: string, name: string, value: Json): Json {
  if (!isSealed(value)) return value;
  const place = { destinationId, path: `/${name}` };
  let opened = unseal(ring, place, value);
  if (!opened.ok && opened.fault === 'unknown_key') opened = unseal(refresh(), place, value);
  if (!opened.ok)
    throw new Error(`the setting ${name} of destination ${destinationId} cannot be opened: ${opened.fault}`);
  return opened.value;
}

function mapSettings(settings: JsonObject, change: (name: string, value: Json) => Json): JsonObject {
  return Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, change(name, value)]));
}
