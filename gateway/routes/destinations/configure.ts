import { type ConnectorDescription, type Destination, exposuresOf, type JsonObject } from '@tributary/core';
import type { GatewayDependencies } from '../../dependencies.ts';
import { invalidRequest } from '../../errors/api-error.ts';
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
  /**
   * The settings of a stored destination, replaced but for the secrets that are masked or left out. Null takes a secret
   * away that the connector can do without. A secret is not kept for another party than it was stated for, nor for a
   * way that protects it less: a member may change a destination without knowing its secrets, and could read them from
   * a place or a network of their own.
   */
  replace(description: ConnectorDescription, stored: Destination, settings: JsonObject): JsonObject;
}

export function createConfigurator({
  seal,
  unseal,
  random,
  clock,
}: Pick<GatewayDependencies, 'seal' | 'unseal' | 'random' | 'clock'>): Configurator {
  const faultsOf = createSettingsChecker();

  function check(description: ConnectorDescription, settings: JsonObject): void {
    const faults = faultsOf(description, settings);
    if (faults.length > 0) throw invalidRequest(...faults);
  }

  function opened(destination: Destination, kept: JsonObject): JsonObject {
    const lost: string[] = [];
    const clear = Object.entries(kept).map(([name, value]) => {
      try {
        return unseal({ ...destination, settings: { [name]: value } }).settings;
      } catch {
        lost.push(name);
        return {};
      }
    });
    if (lost.length > 0) throw toBeStated(lost, 'cannot be opened any more: state it again');
    return Object.assign({}, ...clear);
  }

  /** What of the stored settings can be opened: a secret whose key is gone signs nothing any more. */
  function openable(stored: Destination): JsonObject {
    const readable = Object.entries(stored.settings).map(([name, value]) => {
      try {
        return unseal({ ...stored, settings: { [name]: value } }).settings;
      } catch {
        return {};
      }
    });
    return Object.assign({}, ...readable);
  }

  return {
    create(description, id, settings) {
      const { secrets } = description;
      const stated = statedSettings(settings, secrets);
      const made = description.generate?.(stated, random) ?? stated;
      check(description, made);
      const complete = description.rotation?.rotated({}, made, clock()) ?? made;
      const generated = Object.entries(made).filter(([name]) => !Object.hasOwn(stated, name));
      return { settings: seal(id, complete, secrets), generated: Object.fromEntries(generated) };
    },
    replace(description, stored, settings) {
      const stated = statedSettings(settings, description.secrets);
      const generated = Object.keys(description.generate?.(stated, random) ?? {});
      const needed = [...generated, ...requiredBy(description)];
      const secrets = description.secrets.filter((name) => settings[name] !== null || needed.includes(name));
      const kept = keptSecrets(stored.settings, stated, secrets);
      const complete = { ...stated, ...opened(stored, kept) };
      check(description, complete);
      const [exposure] = exposuresOf(stored.settings, stated, description);
      const { rotation } = description;
      const sent = Object.keys(kept).filter(
        (name) => !generated.includes(name) && name !== rotation?.previous,
      );
      if (exposure !== undefined && sent.length > 0)
        throw toBeStated(sent, `must be stated again, as ${exposure.setting} is ${exposure.change}`);
      if (rotation === undefined) return { ...seal(stored.id, stated, description.secrets), ...kept };
      const { [rotation.previous]: _, ...others } = kept;
      const rotated = rotation.rotated(openable(stored), complete, clock());
      const changed = Object.entries(rotated).filter(([name]) => !Object.hasOwn(others, name));
      return { ...seal(stored.id, Object.fromEntries(changed), description.secrets), ...others };
    },
  };
}

function toBeStated(names: readonly string[], message: string) {
  return invalidRequest(...names.map((name) => ({ path: `/settings/${name}`, message })));
}

function requiredBy({ settingsSchema: { required } }: ConnectorDescription): readonly string[] {
  return Array.isArray(required) ? required.map(String) : [];
}
