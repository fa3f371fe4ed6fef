import { type ConnectorDescription, namesParty, protects } from '@tributary/core';
import { secretNames } from '../secret-names.ts';
import { MAX_BATCH, settingsFaults, settingsSchema } from './settings.ts';

export const description: ConnectorDescription = {
  type: 'kafka',
  title: 'Kafka topic',
  description: [
    'Writes each delivery as one record to a topic of another Kafka cluster, with `acks=all`. The key is the event\'s subject (`user_id`, else `anonymous_id`), so the events of one subject are in one partition; the partitioner is the one of Kafka\'s Java client. The value is `{ "id", "type": "event", "event", "rule_id", "destination_id", "attempt" }` as JSON.',
    'Headers: `delivery-id`, `message-id`, `workspace-id`, `type`, and of a replay `replay`. A record may be written more than once, always with the same `delivery-id`: Kafka knows no key to tell them apart by.',
    'A cluster that cannot be reached, a partition without a leader or too few replicas, a topic that is not there (yet) and a broken connection are tried again. A batch that is refused for its records (too large, not valid, against a policy), or without a reason, is sent again in parts at once, so that only a record that is refused alone is given up, or tried again where no reason is told. Credentials that are not taken and a missing permission are given up; so is a cluster that asks for fewer than 4,096 or more than 100,000 iterations of SCRAM.',
    'The connection test signs in and looks for the topic. Whether it may be written to shows with the first delivery.',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  exposing: [
    ...namesParty('brokers', 'ca', 'username'),
    protects('tls', true, false),
    protects('sasl_mechanism', 'scram-sha-512', 'scram-sha-256', 'plain'),
  ],
  maxBatch: MAX_BATCH,
  hasTest: true,
  check: settingsFaults,
};
