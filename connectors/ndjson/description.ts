import type { ConnectorDescription } from '@tributary/core';
import { secretNames } from '../secret-names.ts';
import { MAX_BATCH, settingsFaults, settingsSchema } from './settings.ts';

export const description: ConnectorDescription = {
  type: 'ndjson',
  title: 'NDJSON files',
  description: [
    'Appends each delivery as one line of JSON to files on the machine of the process that delivers: `<data folder>/ndjson/<workspace id>/<folder>/<YYYY-MM-DD>-<n>.ndjson`. A workspace has a folder of its own, so none reads or disturbs what another wrote.',
    'A line is `{ "id", "type": "event", "event", "rule_id", "destination_id", "attempt" }`. A delivery counts as delivered once its line is on the disk (fsync). A file is followed by the next one at midnight UTC or before it would pass 64 MB; the names sort in the order of writing.',
    'Files only grow, and what was written is never changed, so a reader may follow them. It meets the same `id` twice when a process died before it could note the first; and it may meet a line that is empty, or no JSON: one left half written by a crash or a full disk. Such a line is to be skipped; its delivery was not acknowledged and follows whole. The last line is complete once its newline is there. A reader that removes files leaves the newest alone.',
    'A full disk and other faults of the file system are tried again. A part of the path that is a symbolic link is refused and the delivery given up.',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  exposing: [],
  maxBatch: MAX_BATCH,
  hasTest: true,
  check: settingsFaults,
};
