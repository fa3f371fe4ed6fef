import type { JsonObject } from '@tributary/core';

const MAX_DEPTH = 8;

/** Begins with a letter, a digit or `_`, so it is neither `..` nor hidden. */
const PART = '[A-Za-z0-9_][A-Za-z0-9._-]*';

/** Deliveries of one call at most. */
export const MAX_BATCH = 500;

/** What a user writes. */
export const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['folder'],
  additionalProperties: false,
  properties: {
    folder: {
      type: 'string',
      title: 'Folder',
      description:
        "Where to write: a relative path of letters, digits, `.`, `_`, `-` and `/`, below the workspace's own folder.",
      examples: ['orders'],
      maxLength: 200,
      pattern: `^${PART}(/${PART})*$`,
    },
  },
} as const satisfies JsonObject;

const FOLDER = new RegExp(settingsSchema.properties.folder.pattern, 'u');
const ONE_PART = new RegExp(`^${PART}$`, 'u');

/** The same as the connector reads it. */
export interface NdjsonSettings {
  /** The parts of the path, never empty, none of which leads upwards. */
  readonly parts: readonly string[];
}

/** Undefined for what `settingsSchema` and `settingsFaults` would not have let through. */
export function readSettings(settings: JsonObject): NdjsonSettings | undefined {
  const { folder } = settings;
  if (typeof folder !== 'string' || !FOLDER.test(folder) || settingsFaults(settings).length > 0)
    return undefined;
  return { parts: folder.split('/') };
}

/** What the schema cannot say. Paths are JSON pointers below the settings. */
export function settingsFaults(settings: JsonObject): readonly { path: string; message: string }[] {
  if (typeof settings.folder !== 'string' || settings.folder.split('/').length <= MAX_DEPTH) return [];
  return [{ path: '/folder', message: `must have at most ${MAX_DEPTH} parts` }];
}

/** The folders to write into, below the data folder, outermost first; undefined for a workspace id that names none. */
export function foldersOf(workspaceId: string, settings: NdjsonSettings): readonly string[] | undefined {
  return ONE_PART.test(workspaceId) ? ['ndjson', workspaceId, ...settings.parts] : undefined;
}
