import { type ConnectorDescription, type JsonObject, namesParty, protects } from '@tributary/core';
import {
  caField,
  createSettingsReader,
  passwordField,
  type SettingsFault,
  secretNames,
  tlsField,
  usernameField,
} from '../settings.ts';

const MECHANISMS = ['plain', 'scram-sha-256', 'scram-sha-512'] as const;

/** Deliveries of one batch at most. */
export const MAX_BATCH = 500;

/** The settings as users write them. */
const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['brokers', 'topic'],
  additionalProperties: false,
  properties: {
    brokers: {
      type: 'array',
      title: 'Brokers',
      description:
        'Where to ask for the cluster first, `host:port` each. Every address that the cluster announces must be a public one too.',
      items: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,253}:[0-9]{1,5}$' },
      examples: [['kafka-1.example.com:9093', 'kafka-2.example.com:9093']],
      minItems: 1,
      maxItems: 20,
    },
    topic: {
      type: 'string',
      title: 'Topic',
      description: 'Where to write; it must be there.',
      examples: ['customer-events'],
      pattern: '^[A-Za-z0-9._-]{1,249}$',
    },
    tls: tlsField,
    ca: caField,
    sasl_mechanism: {
      type: 'string',
      title: 'SASL mechanism',
      description: 'How `username` and `password` sign in, where they are given.',
      enum: [...MECHANISMS],
      default: 'scram-sha-512',
    },
    username: usernameField,
    password: passwordField,
  },
} as const satisfies JsonObject;

/** The type of the schema above. */
export interface KafkaSettings {
  readonly brokers: readonly string[];
  readonly topic: string;
  readonly tls: boolean;
  readonly ca?: string;
  readonly sasl_mechanism: (typeof MECHANISMS)[number];
  readonly username?: string;
  readonly password?: string;
}

/** Checks that JSON Schema cannot express. Paths are JSON pointers below the settings. */
export function settingsFaults({ brokers, username, password }: JsonObject): readonly SettingsFault[] {
  const faults: SettingsFault[] = [];
  (Array.isArray(brokers) ? brokers : []).forEach((broker, index) => {
    const port = Number(String(broker).split(':').at(-1));
    if (!(port >= 1 && port <= 65_535)) {
      faults.push({ path: `/brokers/${index}`, message: 'must end in a port from 1 to 65535' });
    }
  });
  if (password !== undefined && username === undefined) {
    faults.push({ path: '/username', message: 'is required with a password' });
  }
  if (username !== undefined && password === undefined) {
    faults.push({ path: '/password', message: 'is required with a user' });
  }
  return faults;
}

export const readSettings = createSettingsReader<KafkaSettings>(settingsSchema, settingsFaults);

export const description: ConnectorDescription = {
  type: 'kafka',
  title: 'Kafka topic',
  description: [
    'Writes each delivery as one record to a topic of another Kafka cluster, with `acks=all`. The key is the event\'s subject (`user_id`, else `anonymous_id`), so the events of one subject are in one partition; the partitioner is the one of Kafka\'s Java client. The value is `{ "id", "type": "event", "event", "rule_id", "destination_id", "attempt" }` as JSON.',
    'Headers: `delivery-id`, `message-id`, `workspace-id`, `type`, and of a replay `replay`. A record may be written more than once, always with the same `delivery-id`: Kafka does not deduplicate them.',
    'An unreachable cluster, a partition without a leader or with too few replicas, a topic that does not exist (yet) and a broken connection are retried. A batch that is refused because of its records (too large, not valid, against a policy), or without a reason, is sent again in parts at once, so that only a record that is refused alone is dead, or retried where there is no reason. Refused credentials and a missing permission are dead; so is a cluster that asks for fewer than 4,096 or more than 100,000 iterations of SCRAM.',
    'The connection test signs in and checks that the topic exists. Whether it may be written to shows with the first delivery.',
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
