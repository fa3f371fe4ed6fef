import { type ConnectorDescription, namesParty, protects } from '@tributary/core';
import { secretNames } from '../secret-names.ts';
import { MAX_BATCH, settingsSchema } from './settings.ts';

export const description: ConnectorDescription = {
  type: 'redis',
  title: 'Redis stream',
  description: [
    'Adds each delivery as one entry to a stream (`XADD`): the fields `id`, `type`, `message_id` and `body`, which is `{ "id", "type": "event", "event", "rule_id", "destination_id", "attempt" }` as JSON. The entries of one call are added together by one script.',
    'The same script keeps the ids of the last hours in a sorted set beside the stream, `{<stream>}:delivered`, and skips what it finds there: within `remember_hours` a delivery adds one entry, however often it is sent.',
    'A server out of memory, one that loads its data, a replica and a broken connection are tried again. A batch that is refused in any other way, while the server takes the same call without entries, is sent again in parts at once: only an entry that is refused alone is given up. A wrong password, a missing permission, a key that is no stream and a server that is part of a cluster are given up.',
    'The connection test signs in, looks at the stream and runs the script without an entry.',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  exposing: [...namesParty('host', 'port', 'ca', 'username'), protects('tls', true, false)],
  maxBatch: MAX_BATCH,
  hasTest: true,
};
