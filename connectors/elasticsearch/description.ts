import { type ConnectorDescription, namesParty } from '@tributary/core';
import { secretNames } from '../secret-names.ts';
import { MAX_BATCH, settingsFaults, settingsSchema } from './settings.ts';

export const description: ConnectorDescription = {
  type: 'elasticsearch',
  title: 'Elasticsearch',
  description: [
    'Writes each delivery as one document, those of one call by one `_bulk` request. OpenSearch speaks the same. The document is `{ "@timestamp", "id", "type": "event", "event", "rule_id", "destination_id", "attempt" }`; `@timestamp` is the timestamp of the event.',
    "The document's `_id` is the delivery's, and it is only ever created: a delivery is one document, however often it is sent, and what was written is never changed. (In a data stream that holds for its newest index.)",
    'Each document has its own verdict: one that the mapping does not take is given up while the others are written. 429, 5xx and a broken connection are tried again; an answer that breaks off says nothing, so all of its call are. 401, 403, a missing index that is not made by itself and other 4xx are given up.',
    'The connection test asks for a change of a document that is not there, which needs the same permission and writes nothing.',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  exposing: namesParty('url', 'username'),
  maxBatch: MAX_BATCH,
  hasTest: true,
  check: settingsFaults,
};
