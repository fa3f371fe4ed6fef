import type { JsonObject } from '@tributary/core';
import { isObject } from './json.ts';

/** The settings a schema marks `writeOnly`: sealed at rest, and never shown again. */
export function secretNames({ properties }: JsonObject): readonly string[] {
  return Object.entries(isObject(properties) ? properties : {}).flatMap(([name, schema]) =>
    isObject(schema) && schema.writeOnly === true ? [name] : [],
  );
}
