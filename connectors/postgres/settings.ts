import {
  type ConnectorDescription,
  canonicalTime,
  type Delivery,
  eventJson,
  type JsonObject,
  namesParty,
  parseExact,
  protects,
} from '@tributary/core';
import {
  caField,
  createSettingsReader,
  hostField,
  passwordField,
  portField,
  secretNames,
  tlsField,
  usernameField,
} from '../settings.ts';

/** The columns of the table: name, SQL type, and their value of a delivery. */
export const COLUMNS = [
  ['delivery_id', 'uuid', ({ id }: Delivery) => id],
  ['message_id', 'text', ({ message_id }: Delivery) => message_id],
  ['type', 'text', ({ event }: Delivery) => event.type],
  ['name', 'text', ({ event }: Delivery) => event.event ?? event.name ?? event.group_id],
  ['user_id', 'text', ({ event }: Delivery) => event.user_id],
  ['anonymous_id', 'text', ({ event }: Delivery) => event.anonymous_id],
  ['timestamp', 'timestamptz', ({ event }: Delivery) => instantOf(event.timestamp)],
  ['received_at', 'timestamptz', ({ event }: Delivery) => event.received_at],
  ['workspace_id', 'text', ({ workspace_id }: Delivery) => workspace_id],
  ['environment', 'text', ({ environment }: Delivery) => environment],
  ['rule_id', 'text', ({ rule_id }: Delivery) => rule_id],
  ['destination_id', 'text', ({ destination_id }: Delivery) => destination_id],
  ['attempt', 'integer', ({ attempts }: Delivery) => attempts.length + 1],
  ['event', 'jsonb', (delivery: Delivery) => storableJson(eventJson(delivery))],
] as const;

const NAME = '[A-Za-z_][A-Za-z0-9_]{0,62}';

/** Deliveries of one batch at most. */
export const MAX_BATCH = 500;

/** The settings of a server that sign in to a database. */
export const serverFields = {
  host: hostField('The PostgreSQL server (12 or newer).'),
  port: portField(5432),
  tls: tlsField,
  ca: caField,
  database: {
    type: 'string',
    title: 'Database',
    description: 'The name of the database.',
    minLength: 1,
    maxLength: 63,
  },
  username: usernameField,
  password: passwordField,
} as const satisfies JsonObject;

/** The type of these settings. */
export interface ServerSettings {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  readonly ca?: string;
  readonly database: string;
  readonly username: string;
  readonly password?: string;
}

/** Those of them that expose the password when they change. */
export const exposingServer = [...namesParty('host', 'port', 'ca', 'username'), protects('tls', true, false)];

/** The settings as users write them. */
const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['host', 'database', 'username'],
  additionalProperties: false,
  properties: {
    ...serverFields,
    table: {
      type: 'string',
      title: 'Table',
      description: 'Where to insert: `table` or `schema.table`, in the case it was made in.',
      default: 'tributary_events',
      pattern: `^${NAME}([.]${NAME})?$`,
    },
    create_table: {
      type: 'boolean',
      title: 'Make the table',
      description: 'Make the table when it is not there.',
      default: true,
    },
  },
} as const satisfies JsonObject;

/** The type of the schema above. */
export interface PostgresSettings extends ServerSettings {
  readonly table: string;
  readonly create_table: boolean;
}

export const readSettings = createSettingsReader<PostgresSettings>(settingsSchema);

const columns = COLUMNS.map(([name, type]) => `\`${name}\` ${type}`).join(', ');

export const description: ConnectorDescription = {
  type: 'postgres',
  title: 'PostgreSQL',
  description: [
    'Inserts each delivery as one row, a batch in one statement with `on conflict (delivery_id) do nothing`: a delivery is one row, however often it is sent.',
    `The columns are ${columns} and \`inserted_at\`. \`name\` is the event's \`event\`, \`name\` or \`group_id\`; \`event\` is the whole event, with U+FFFD in place of U+0000, which PostgreSQL cannot store. A table of your own needs these columns and a unique index on \`delivery_id\`; it may have more, with defaults, and \`delivery_id\` may be \`text\`.`,
    'A batch that some rows cause to be refused (a value, a constraint, a policy, a trigger) is sent again in parts at once: a row that is refused alone is dead with the SQLSTATE and the message of the server, or retried where the SQLSTATE is transient (classes 08, 25, 40, 53, 55, 57, 58, F0, HV, XX). A server that is unreachable, starting, full or read-only, and a broken connection are retried. A wrong password, a missing permission or database, and a table that does not fit are dead; so is a server that asks for the password in clear without TLS, or for fewer than 4,096 or more than 100,000 iterations of SCRAM.',
    'The connection test signs in, creates the table where `create_table` is set, and inserts no rows.',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  exposing: exposingServer,
  maxBatch: MAX_BATCH,
  hasTest: true,
};

/** A time with a zone, also of events from before times were normalized; without one the session's zone would apply. */
function instantOf(time: string): string {
  return canonicalTime(time) ?? time;
}

/** The `table` or `schema.table` of the settings as quoted SQL identifiers. */
function quoted(table: string): string {
  return table
    .split('.')
    .map((part) => `"${part.replaceAll('"', '""')}"`)
    .join('.');
}

export function createTable(table: string): string {
  const columns = COLUMNS.map(
    ([name, type]) => `"${name}" ${type}${name === 'delivery_id' ? ' primary key' : ''}`,
  );
  return `create table if not exists ${quoted(table)} (${columns.join(', ')}, "inserted_at" timestamptz not null default now())`;
}

/** One array for each column, so that the statement is the same for any number of deliveries. */
export function insertStatement(table: string): string {
  const names = COLUMNS.map(([name]) => `"${name}"`).join(', ');
  const arrays = COLUMNS.map(([, type], index) => `$${index + 1}::${type}[]`).join(', ');
  return `insert into ${quoted(table)} (${names}) select * from unnest(${arrays}) on conflict ("delivery_id") do nothing`;
}

export function insertValues(deliveries: readonly Delivery[]): unknown[][] {
  return COLUMNS.map(([, , columnOf]) =>
    deliveries.map((delivery) => {
      const value = columnOf(delivery) ?? null;
      return typeof value === 'string' ? storableText(value) : value;
    }),
  );
}

/** Escapes that PostgreSQL refuses: U+0000 and half of a surrogate pair. */
const ESCAPES = /\\u(?:0000|d[89a-f])/i;

/** The text with U+FFFD in place of each character that PostgreSQL cannot store. */
function storableText(text: string): string {
  return text.replaceAll('\0', '\ufffd').toWellFormed();
}

/** JSON for a `jsonb` column: `storableText` applied to names and values at any depth. Numbers keep their digits. */
function storableJson(json: string): string {
  return ESCAPES.test(json) ? JSON.stringify(storable(parseExact(json))) : json;
}

function storable(value: unknown): unknown {
  if (typeof value === 'string') return storableText(value);
  if (Array.isArray(value)) return value.map(storable);
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, of]) => [storableText(name), storable(of)]));
}
