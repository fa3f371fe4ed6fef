import {
  type ConnectorDescription,
  type Destination,
  exposuresOf,
  isSealed,
  type JsonObject,
} from '@tributary/core';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import type { GatewayDependencies } from '../dependencies.ts';
import { type ErrorDetail, invalidRequest } from '../errors/api-error.ts';
import { describeValidation } from '../errors/error-handler.ts';

interface Configured {
  /** Secrets sealed. */
  readonly settings: JsonObject;
  /** Generated secrets, in clear text, to be shown once. */
  readonly generated: JsonObject;
}

type Dependencies = Pick<GatewayDependencies, 'seal' | 'unseal' | 'random' | 'clock'>;

/** Converts settings of a request into their stored form. 400 for settings that the connector refuses. */
export class Configurator {
  readonly #dependencies: Dependencies;
  readonly #faultsOf = createSettingsChecker();

  constructor(dependencies: Dependencies) {
    this.#dependencies = dependencies;
  }

  /** The settings of a new destination; absent secrets are generated where the connector supports it. */
  create(
    description: ConnectorDescription,
    { id, name }: Pick<Destination, 'id' | 'name'>,
    settings: JsonObject,
  ): Configured {
    const { seal, random, clock } = this.#dependencies;
    const { secrets } = description;
    const stated = withNamed(description, name, statedSettings(settings, secrets));
    const made = description.generate?.(stated, random) ?? stated;
    this.#check(description, made);
    const complete = description.rotation?.rotated({}, made, clock()) ?? made;
    const generated = Object.entries(made).filter(([name]) => !Object.hasOwn(stated, name));
    return { settings: seal(id, complete, secrets), generated: Object.fromEntries(generated) };
  }

  /**
   * Replaces the settings of a stored destination. Masked and absent secrets are kept; `null` removes an optional secret. A
   * setting that follows from the name is kept as well.
   *
   * A secret is not kept when the change would send it to another party, or less protected (400): a member may change a
   * destination without knowing its secrets, and could read them at an address of their own.
   */
  replace(description: ConnectorDescription, stored: Destination, settings: JsonObject): JsonObject {
    const { seal, random, clock } = this.#dependencies;
    // One that was made before such settings were stored gets that of its name until now.
    const named = withNamed(
      description,
      stored.name,
      statedSettings(settings, description.secrets),
      stored.settings,
    );
    const stated = description.replaced?.(stored.settings, named) ?? named;
    const generated = Object.keys(description.generate?.(stated, random) ?? {});
    const needed = [...generated, ...requiredBy(description)];
    const secrets = description.secrets.filter((name) => settings[name] !== null || needed.includes(name));
    const kept = keptSecrets(stored.settings, stated, secrets);
    const { clear, lost } = this.#opened(stored, kept);
    if (lost.length > 0) throw toBeStated(lost, 'cannot be opened any more: state it again');
    const complete = { ...stated, ...clear };
    this.#check(description, complete);
    const [exposure] = exposuresOf(stored.settings, stated, description);
    const { rotation } = description;
    const sent = Object.keys(kept).filter((name) => !generated.includes(name) && name !== rotation?.previous);
    if (exposure !== undefined && sent.length > 0)
      throw toBeStated(sent, `must be stated again, as ${exposure.setting} is ${exposure.change}`);
    if (rotation === undefined) return { ...seal(stored.id, stated, description.secrets), ...kept };
    const { [rotation.previous]: _, ...others } = kept;
    // A secret whose key is lost is left out.
    const before = this.#opened(stored, stored.settings).clear;
    const rotated = rotation.rotated(before, complete, clock());
    const changed = Object.entries(rotated).filter(([name]) => !Object.hasOwn(others, name));
    return { ...seal(stored.id, Object.fromEntries(changed), description.secrets), ...others };
  }

  #check(description: ConnectorDescription, settings: JsonObject): void {
    const faults = this.#faultsOf(description, settings);
    if (faults.length > 0) throw invalidRequest(...faults);
  }

  /** Settings of a destination in clear text, and the names of those that no key opens. */
  #opened(destination: Destination, settings: JsonObject) {
    const lost: string[] = [];
    const clear = Object.entries(settings).map(([name, value]) => {
      try {
        return this.#dependencies.unseal({ ...destination, settings: { [name]: value } }).settings;
      } catch {
        lost.push(name);
        return {};
      }
    });
    return { clear: Object.assign({}, ...clear) as JsonObject, lost };
  }
}

function toBeStated(names: readonly string[], message: string) {
  return invalidRequest(...names.map((name) => ({ path: `/settings/${name}`, message })));
}

function requiredBy({ settingsSchema: { required } }: ConnectorDescription): readonly string[] {
  return Array.isArray(required) ? required.map(String) : [];
}

/**
 * The faults of settings in clear text, by the connector's schema and then by its own check. Values that look sealed are
 * refused, as they could not be opened.
 */
type SettingsChecker = (description: ConnectorDescription, settings: JsonObject) => readonly ErrorDetail[];

/** Compiles the schema of each connector once. */
export function createSettingsChecker(): SettingsChecker {
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

export const MASK = '********';

/** Settings without `null`, which means absent, and without masks, which stand for stored secrets. */
function statedSettings(settings: JsonObject, secrets: readonly string[]): JsonObject {
  return Object.fromEntries(
    Object.entries(settings).filter(
      ([name, value]) => value !== null && !(secrets.includes(name) && value === MASK),
    ),
  );
}

/** Settings with the one that follows from the name: as `before` has it, else by the name. */
function withNamed(
  { named }: ConnectorDescription,
  name: string,
  settings: JsonObject,
  before: JsonObject = {},
): JsonObject {
  if (named === undefined || Object.hasOwn(settings, named.setting)) return settings;
  return { ...settings, [named.setting]: before[named.setting] ?? named.valueOf(name) };
}

/** The stored secrets, sealed, that a change masks or leaves out. */
function keptSecrets(stored: JsonObject, stated: JsonObject, secrets: readonly string[]): JsonObject {
  return Object.fromEntries(
    Object.entries(stored).filter(([name]) => secrets.includes(name) && !Object.hasOwn(stated, name)),
  );
}

/** Settings with masked secrets. Every sealed value is masked, also when the connector no longer names it as a secret. */
export function maskSecrets(settings: JsonObject, secrets: readonly string[]): JsonObject {
  return Object.fromEntries(
    Object.entries(settings).map(([name, value]) => [
      name,
      secrets.includes(name) || isSealed(value) ? MASK : value,
    ]),
  );
}
