import type { ConnectorDescription, Destination, JsonObject } from '@tributary/core';
import type { GatewayDependencies } from '../../dependencies.ts';
import { invalidRequest } from '../../http/errors.ts';
import { keptSecrets, statedSettings } from './secrets.ts';
import { createSettingsChecker } from './settings.ts';

/** Settings ready to be stored. */
export interface Configured {
  /** Secrets sealed. */
  readonly settings: JsonObject;
  /** Those made here, in clear, to be shown once. */
  readonly generated: JsonObject;
}

/** Turns what a user states into what is stored; 400 for settings the connector cannot work with. */
export interface Configurator {
  /** The settings of a new destination; what is absent and can be generated is. */
  create(description: ConnectorDescription, id: string, settings: JsonObject): Configured;
  /** The settings of a stored destination, replaced but for the secrets that are masked or left out. */
  replace(description: ConnectorDescription, stored: Destination, settings: JsonObject): JsonObject;
}

export function createConfigurator({
  seal,
  random,
}: Pick<GatewayDependencies, 'seal' | 'random'>): Configurator {
  const faultsOf = createSettingsChecker();

  function check(description: ConnectorDescription, settings: JsonObject, kept: readonly string[]): void {
    const faults = faultsOf(description, settings, kept);
    if (faults.length > 0) throw invalidRequest(...faults);
  }

  return {
    create(description, id, settings) {
      const { secrets } = description;
      const stated = statedSettings(settings, secrets);
      const complete = description.generate?.(stated, random) ?? stated;
      check(description, complete, []);
      const generated = Object.entries(complete).filter(([name]) => !Object.hasOwn(stated, name));
      return { settings: seal(id, complete, secrets), generated: Object.fromEntries(generated) };
    },
    replace(description, { id, settings: stored }, settings) {
      const { secrets } = description;
      const stated = statedSettings(settings, secrets);
      const kept = keptSecrets(stored, stated, secrets);
      check(description, stated, Object.keys(kept));
      return { ...seal(id, stated, secrets), ...kept };
    },
  };
}
