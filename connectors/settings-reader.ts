import type { Json, JsonObject } from '@tributary/core';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { isObject } from './json.ts';
import { oncePer } from './once-per.ts';

/** One thing that is wrong with settings. The path is a JSON pointer below them. */
export interface SettingsFault {
  readonly path: string;
  readonly message: string;
}

/**
 * Reads settings of a schema's shape: with their defaults, or undefined for what the schema or `faults` would not have
 * let through. `Settings` says the same as the schema, in TypeScript.
 */
export function createSettingsReader<Settings>(
  schema: JsonObject,
  faults: (settings: JsonObject) => readonly SettingsFault[] = () => [],
): (settings: JsonObject) => Settings | undefined {
  const defaults = defaultsOf(schema);
  let validate: ValidateFunction<Settings> | undefined;

  return oncePer((settings) => {
    validate ??= new Ajv2020({ strict: true }).compile<Settings>(schema);
    const whole: unknown = { ...defaults, ...settings };
    return validate(whole) && faults(settings).length === 0 ? whole : undefined;
  });
}

function defaultsOf({ properties }: JsonObject): JsonObject {
  const entries = Object.entries(isObject(properties) ? properties : {});
  return Object.fromEntries(
    entries.flatMap(([name, schema]): [string, Json][] =>
      isObject(schema) && schema.default !== undefined ? [[name, schema.default]] : [],
    ),
  );
}
