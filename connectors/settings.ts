import { isObject, type Json, type JsonObject, objectIn } from '@tributary/core';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';

/** A finding about settings. The path is a JSON pointer below them. */
export interface SettingsFault {
  readonly path: string;
  readonly message: string;
}

type ValueOf<Field> = Field extends { readonly enum: readonly (infer Value)[] }
  ? Value
  : Field extends { readonly type: 'boolean' }
    ? boolean
    : Field extends { readonly type: 'integer' }
      ? number
      : string;

type IsStated<Name, Field, Required> = Name extends Required
  ? true
  : Field extends { readonly default: unknown }
    ? true
    : false;

/** The type of settings that fields describe, whose values are no lists and objects. `Required`: names of those without a default. */
export type FieldsOf<Fields, Required extends keyof Fields = never> = {
  readonly [Name in keyof Fields as IsStated<Name, Fields[Name], Required> extends true
    ? Name
    : never]: ValueOf<Fields[Name]>;
} & {
  readonly [Name in keyof Fields as IsStated<Name, Fields[Name], Required> extends true
    ? never
    : Name]?: ValueOf<Fields[Name]>;
};

/** The type of the settings that a schema describes. */
export type SettingsOf<Schema extends { readonly properties: object; readonly required: readonly string[] }> =
  FieldsOf<Schema['properties'], Schema['required'][number] & keyof Schema['properties']>;

/**
 * A reader of settings: it adds the schema's defaults, and returns undefined for settings that the schema or `faults`
 * refuse. `Settings` is the TypeScript type of the schema.
 */
export function createSettingsReader<Settings>(
  schema: JsonObject,
  faults: (settings: JsonObject) => readonly SettingsFault[] = () => [],
): (settings: JsonObject) => Settings | undefined {
  const defaults = defaultsOf(schema);
  let validate: ValidateFunction<Settings> | undefined;

  return memoizeByObject((settings) => {
    validate ??= new Ajv2020({ strict: true }).compile<Settings>(schema);
    const whole: unknown = { ...defaults, ...settings };
    return validate(whole) && faults(settings).length === 0 ? whole : undefined;
  });
}

function defaultsOf({ properties }: JsonObject): JsonObject {
  const entries = Object.entries(objectIn(properties));
  return Object.fromEntries(
    entries.flatMap(([name, schema]): [string, Json][] =>
      isObject(schema) && schema.default !== undefined ? [[name, schema.default]] : [],
    ),
  );
}

/** The address of an HTTP destination. */
export function urlField(what: string, example: string) {
  return {
    type: 'string',
    title: 'URL',
    description: `${what}: an absolute http or https URL without credentials. It must be public.`,
    examples: [example],
    maxLength: 2_048,
    pattern: '^[hH][tT][tT][pP][sS]?://',
  } as const satisfies JsonObject;
}

/** Checks of `urlField` that JSON Schema cannot express. `instead`: the settings for credentials. */
export function urlFaults(stated: Json | undefined, instead: string): readonly SettingsFault[] {
  if (typeof stated !== 'string') return [];
  const url = URL.parse(stated);
  const message =
    url === null
      ? 'must be an absolute URL'
      : url.protocol !== 'http:' && url.protocol !== 'https:'
        ? 'must be http or https'
        : url.username !== '' || url.password !== ''
          ? `must not hold credentials; use ${instead}`
          : undefined;
  return message === undefined ? [] : [{ path: '/url', message }];
}

/** A host as a setting: a name or an address, never a path of this machine. */
const HOST_PATTERN = '^[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?[.]?$|^[0-9A-Fa-f:.]{2,45}$';

export function hostField(what: string) {
  return {
    type: 'string',
    title: 'Host',
    description: `${what} Name or address; a public one.`,
    examples: ['db.example.com'],
    pattern: HOST_PATTERN,
  } as const satisfies JsonObject;
}

export function portField(usual: number) {
  return {
    type: 'integer',
    title: 'Port',
    description: 'Its TCP port.',
    minimum: 1,
    maximum: 65_535,
    default: usual,
  } as const satisfies JsonObject;
}

export const tlsField = {
  type: 'boolean',
  title: 'TLS',
  description: 'Encrypt the connection and check the certificate of the host.',
  default: true,
} as const satisfies JsonObject;

export const caField = {
  type: 'string',
  title: 'Certificate authority',
  description: 'PEM of the authority of its certificate, where that is not a public one.',
  maxLength: 20_000,
  pattern: '^-----BEGIN CERTIFICATE-----',
} as const satisfies JsonObject;

export const usernameField = {
  type: 'string',
  title: 'User',
  description: 'The user to sign in as.',
  minLength: 1,
  maxLength: 256,
} as const satisfies JsonObject;

export const passwordField = {
  type: 'string',
  title: 'Password',
  description: 'Its password.',
  writeOnly: true,
  minLength: 1,
  maxLength: 1_024,
} as const satisfies JsonObject;

/** Names of the settings that a schema marks `writeOnly`: they are sealed at rest and never returned by the API. */
export function secretNames({ properties }: JsonObject): readonly string[] {
  return Object.entries(objectIn(properties)).flatMap(([name, schema]) =>
    isObject(schema) && schema.writeOnly === true ? [name] : [],
  );
}

/**
 * Memoizes `make` for each object for as long as the object lives. The settings of one version of a destination are one
 * object, and values derived from them are needed for every request.
 */
export function memoizeByObject<Key extends object, Value>(make: (key: Key) => Value): (key: Key) => Value {
  const known = new WeakMap<Key, { readonly value: Value }>();
  return (key) => {
    const found = known.get(key);
    if (found !== undefined) return found.value;
    const value = make(key);
    known.set(key, { value });
    return value;
  };
}
