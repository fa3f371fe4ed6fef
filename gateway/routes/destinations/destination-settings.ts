import {
  type ConnectorDescription,
  type Destination,
  exposuresOf,
  isSealed,
  type JsonObject,
} from '@tributary/core';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import type { GatewayDependencies } from '../../dependencies.ts';
import { type ErrorDetail, invalidRequest } from '../../errors/api-error.ts';
import { describeValidation } from '../../errors/validation.ts';

/** Settings ready to be stored. */
interface Configured {
  /** Secrets sealed. */
  readonly settings: JsonObject;
  /** Those made here, in clear, to be shown once. */
  readonly generated: JsonObject;
}

/** Turns what a user states into what is stored; 400 for settings the connector cannot work with. */
interface Configurator {
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

/**
 * What is wrong with settings in clear, by the connector's schema and then by its own check. What only looks sealed is
 * refused: it would not open.
 */
type SettingsChecker = (description: ConnectorDescription, settings: JsonObject) => readonly ErrorDetail[];

/** Schemas are compiled once a connector. */
function createSettingsChecker(): SettingsChecker {
  const ajv = new Ajv2020({ allErrors: true, allowUnionTypes: true });
  formats.default(ajv);
  const compiled = new Map<string, ValidateFunction>();

  function validatorOf({ type, settingsSchema }: ConnectorDescription): ValidateFunction {
    const known = compiled.get(type) ?? ajv.compile(settingsSchema);
    compiled.set(type, known);
    return known;
  }

  return (description, settings) => {
    const below = ({ path, message }: ErrorDetail) => ({ path: `/settings${path}`, message });
    const validate = validatorOf(description);
    validate(settings);
    const faults = describeValidation(validate.errors ?? [], 'body');
    if (faults.length > 0) return faults.map(below);
    const forged = Object.keys(settings).filter((name) => isSealed(settings[name]));
    if (forged.length > 0) return forged.map((name) => below({ path: `/${name}`, message: 'is not valid' }));
    return (description.check?.(settings) ?? []).map(below);
  };
}

/** What answers show instead of a secret. */
export const MASK = '********';

/** Settings without what says nothing: null is the same as absent, and the mask stands for what is stored. */
export function statedSettings(settings: JsonObject, secrets: readonly string[]): JsonObject {
  return Object.fromEntries(
    Object.entries(settings).filter(
      ([name, value]) => value !== null && !(secrets.includes(name) && value === MASK),
    ),
  );
}

/** The stored secrets, sealed, that a change leaves as they are: those it masks or leaves out. */
export function keptSecrets(stored: JsonObject, stated: JsonObject, secrets: readonly string[]): JsonObject {
  return Object.fromEntries(
    Object.entries(stored).filter(([name]) => secrets.includes(name) && !Object.hasOwn(stated, name)),
  );
}

/** Settings as answers show them. Whatever is sealed is masked, also when its connector no longer says so. */
export function maskSecrets(settings: JsonObject, secrets: readonly string[]): JsonObject {
  return Object.fromEntries(
    Object.entries(settings).map(([name, value]) => [
      name,
      secrets.includes(name) || isSealed(value) ? MASK : value,
    ]),
  );
}
