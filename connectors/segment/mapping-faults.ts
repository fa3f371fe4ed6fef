import { deeperThan, type JsonObject } from '@tributary/core';
import { isObject } from '../json.ts';
import type { SettingsFault } from '../settings-reader.ts';

/** Bytes of a mapping as JSON, and objects and lists within one another, at most: what it holds is run for each event. */
const MAX_BYTES = 16 * 1_024;
const MAX_DEPTH = 12;

/** What of the actions' mappings the schema cannot say. Paths are JSON pointers below the settings. */
export function mappingFaults({ actions }: JsonObject): readonly SettingsFault[] {
  if (!Array.isArray(actions)) return [];
  return actions.flatMap((action, index): SettingsFault[] => {
    const mapping = isObject(action) ? action.mapping : undefined;
    const path = `/actions/${index}/mapping`;
    if (mapping === undefined) return [];
    if (deeperThan(mapping, MAX_DEPTH))
      return [{ path, message: `must not be nested deeper than ${MAX_DEPTH} levels` }];
    if (Buffer.byteLength(JSON.stringify(mapping)) > MAX_BYTES)
      return [{ path, message: `must not be longer than ${MAX_BYTES} bytes` }];
    return [];
  });
}
