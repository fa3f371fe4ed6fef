import { canonicalTime, type Delivery, eventJson, parseExact } from '@tributary/core';

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
