import { type ConnectorDescription, namesParty } from '@tributary/core';
import { secretNames } from '../secret-names.ts';
import { MAX_BATCH, settingsFaults, settingsSchema } from './settings.ts';

export const description: ConnectorDescription = {
  type: 's3',
  title: 'S3 objects',
  description: [
    'Puts the deliveries of one call as one object of lines of JSON, gzip-compressed: `<prefix>/<YYYY>/<MM>/<DD>/<HH>/<id>.ndjson.gz`. A line is `{ "id", "type": "event", "event", "rule_id", "destination_id", "attempt" }`. AWS and any service that speaks its protocol.',
    'The name follows from the deliveries in the object: the hour (UTC) is that of the oldest, the id is made from their ids. The same deliveries sent again replace their object instead of adding one. After a crash, or where the put takes longer than half a second and another process goes on with them, they may be sent in other company, and then a delivery is in two objects, under the same `id`; with a `batch_size` of 1 it is always in one.',
    '429, 5xx and a broken connection are tried again. An object that is refused for its size, or by what looks into it on the way, is put again in parts, where the bucket takes others (an empty object at the name of the connection test finds that out). A bucket that is not there, a key that is not taken and a missing permission are given up; so are redirects to another region.',
    'The connection test puts an empty object, `<prefix>/.connection-test`, the same every time.',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  // The bucket is part of the host name unless it is in the path.
  exposing: namesParty('endpoint', 'region', 'bucket', 'path_style', 'access_key_id'),
  maxBatch: MAX_BATCH,
  hasTest: true,
  check: settingsFaults,
};
