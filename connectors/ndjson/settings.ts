import type { ConnectorDescription, JsonObject } from '@tributary/core';
import { secretNames } from '../settings.ts';

const MAX_DEPTH = 8;

/** A segment of the path. It begins with a letter, a digit or `_`, so it is neither `..` nor hidden. */
const PART = '[A-Za-z0-9_][A-Za-z0-9._-]*';

/** Deliveries of one batch at most. */
export const MAX_BATCH = 500;

/** The settings as users write them. */
const settingsSchema = {
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

/** The settings as the connector uses them. */
export interface NdjsonSettings {
  /** The segments of the path: at least one, none of them `..`. */
  readonly parts: readonly string[];
}

/** Undefined for settings that `settingsSchema` or `settingsFaults` refuse. */
export function readSettings(settings: JsonObject): NdjsonSettings | undefined {
  const { folder } = settings;
  if (typeof folder !== 'string' || !FOLDER.test(folder) || settingsFaults(settings).length > 0)
    return undefined;
  return { parts: folder.split('/') };
}

/** Checks that JSON Schema cannot express. Paths are JSON pointers below the settings. */
function settingsFaults(settings: JsonObject): readonly { path: string; message: string }[] {
  if (typeof settings.folder !== 'string' || settings.folder.split('/').length <= MAX_DEPTH) return [];
  return [{ path: '/folder', message: `must have at most ${MAX_DEPTH} parts` }];
}

/** The folders of a destination below the data folder, outermost first; undefined for an invalid workspace id. */
export function foldersOf(workspaceId: string, settings: NdjsonSettings): readonly string[] | undefined {
  return ONE_PART.test(workspaceId) ? ['ndjson', workspaceId, ...settings.parts] : undefined;
}

export const description: ConnectorDescription = {
  type: 'ndjson',
  title: 'NDJSON files',
  description: [
    'Appends each delivery as one line of JSON to files on the machine of the process that delivers: `<data folder>/ndjson/<workspace id>/<folder>/<YYYY-MM-DD>-<n>.ndjson`. Each workspace has its own folder.',
    'A line is `{ "id", "type": "event", "event", "rule_id", "destination_id", "attempt" }`. A delivery counts as delivered once its line is on the disk (fsync). A file is followed by the next one at midnight UTC or before it would pass 64 MB; the names sort in the order of writing.',
    'Files only grow, and written lines are never changed, so a reader may follow them. The same `id` appears again where the first delivery was not recorded: the process died, its partition moved to another one, or the write took longer than the 10 seconds of a call. Keep one line of each `id`. A line may be empty or invalid JSON after a crash or on a full disk: skip it, its delivery was not acknowledged and is written again. The last line is complete once its newline is there. A reader that removes files must leave the newest one.',
    'A full disk and other errors of the file system are retried. A path with a symbolic link is refused, and the delivery is dead.',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  exposing: [],
  maxBatch: MAX_BATCH,
  hasTest: true,
  storesHere: true,
  check: settingsFaults,
};
