import {
  type Connector,
  type ConnectorDestination,
  canonicalTime,
  type Delivery,
  type DeliveryResult,
  eventJson,
  type JsonObject,
  parseExact,
} from '@tributary/core';
import { classifyNetworkFailure, DELIVERED } from '../failures.ts';
import { excerptOf, secretTexts } from '../http/client.ts';
import type { ConnectorContext } from '../kind.ts';
import {
  caField,
  type FieldsOf,
  hostField,
  passwordField,
  portField,
  tlsField,
  usernameField,
} from '../settings.ts';
import {
  type ConnectorCall,
  createClientConnector,
  createProbe,
  type Part,
  type PartResult,
  type Probe,
  sendInParts,
} from './client-connector.ts';
import { untilAborted } from './deadlines.ts';

/*
 * Connectors that insert each delivery as a row into a table of a SQL database. They have the columns, the settings of the
 * table, and the way from a refused batch to the refused rows in common; each has its driver, its SQL and its error codes.
 */

/** Deliveries of one batch at most. */
export const MAX_ROWS = 500;

/** What a column holds; each database has a type for it. */
type ColumnKind = 'id' | 'text' | 'time' | 'integer' | 'json';

/** The columns of the table: name, kind, and their value of a delivery. */
export const COLUMNS = [
  ['delivery_id', 'id', ({ id }) => id],
  ['message_id', 'text', ({ message_id }) => message_id],
  ['type', 'text', ({ event }) => event.type],
  ['name', 'text', ({ event }) => event.event ?? event.name ?? event.group_id],
  ['user_id', 'text', ({ event }) => event.user_id],
  ['anonymous_id', 'text', ({ event }) => event.anonymous_id],
  ['timestamp', 'time', ({ event }) => instantOf(event.timestamp)],
  ['received_at', 'time', ({ event }) => event.received_at],
  ['workspace_id', 'text', ({ workspace_id }) => workspace_id],
  ['environment', 'text', ({ environment }) => environment],
  ['rule_id', 'text', ({ rule_id }) => rule_id],
  ['destination_id', 'text', ({ destination_id }) => destination_id],
  ['attempt', 'integer', ({ attempts }) => attempts.length + 1],
  ['event', 'json', (delivery) => storableJson(eventJson(delivery))],
] as const satisfies readonly (readonly [
  name: string,
  kind: ColumnKind,
  valueOf: (delivery: Delivery) => string | number | undefined,
])[];

/** The types of the columns in one database. */
export type ColumnTypes = Readonly<Record<ColumnKind, string>>;

/** The columns with their types, for the description of a connector. */
export function columnsText(types: ColumnTypes): string {
  return `${COLUMNS.map(([name, kind]) => `\`${name}\` ${types[kind]}`).join(', ')} and \`inserted_at\`. \`name\` is the event's \`event\`, \`name\` or \`group_id\`; \`event\` is the whole event, with U+FFFD in place of U+0000 and of half a surrogate pair.`;
}

/** The values of a delivery, in the order of the columns. */
export function rowOf(delivery: Delivery): readonly (string | number | null)[] {
  return COLUMNS.map(([, , columnOf]) => {
    const value = columnOf(delivery) ?? null;
    return typeof value === 'string' ? storableText(value) : value;
  });
}

/** A time with a zone, also of events from before times were normalized; without one the session's zone would apply. */
function instantOf(time: string): string {
  return canonicalTime(time) ?? time;
}

/** Escapes that databases refuse: U+0000 and half of a surrogate pair. */
const ESCAPES = /\\u(?:0000|d[89a-f])/i;

/** The text with U+FFFD in place of each character that a database may be unable to store. */
function storableText(text: string): string {
  return text.replaceAll('\0', '\ufffd').toWellFormed();
}

/** JSON of the event: `storableText` applied to names and values at any depth. Numbers keep their digits. */
function storableJson(json: string): string {
  return ESCAPES.test(json) ? JSON.stringify(storable(parseExact(json))) : json;
}

function storable(value: unknown): unknown {
  if (typeof value === 'string') return storableText(value);
  if (Array.isArray(value)) return value.map(storable);
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, of]) => [storableText(name), storable(of)]));
}

/** The settings that sign in to the database of a server; `server` describes it. */
export function databaseFields(server: string, port: number) {
  return {
    host: hostField(server),
    port: portField(port),
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
}

/** The type of these settings. */
export type DatabaseSettings = FieldsOf<ReturnType<typeof databaseFields>, 'host' | 'database' | 'username'>;

/** The setting that has a missing table created. */
export const createTableField = {
  type: 'boolean',
  title: 'Make the table',
  description: 'Make the table when it is not there.',
  default: true,
} as const satisfies JsonObject;

/** The settings that all such connectors have. */
export interface RowSettings {
  readonly password?: string;
  readonly create_table: boolean;
}

/** The part of a driver that such a connector uses. */
export interface TableClient {
  /** The last error of a connection. */
  readonly lastFailure: Error | undefined;
  /** Rejects with the server's refusal. Resolves once the rows are committed. Without deliveries it inserts nothing. */
  insert(deliveries: readonly Delivery[]): Promise<void>;
  createTable(): Promise<void>;
  close(): Promise<void>;
}

/** Starts of error codes, each with the reason of the deliveries that it refuses. The first that fits counts. */
type Reasons = readonly (readonly [start: string, reason: string])[];

/** The errors of one database. */
export interface RowErrors {
  /** The server's code of an error; undefined for any other error. */
  codeOf(error: unknown): string | undefined;
  /** Codes of a table that does not exist, and of one that another process created meanwhile. */
  readonly tableMissing: string;
  readonly tableThere: readonly string[];
  /**
   * Whether rows may have caused a refusal. Most codes are ambiguous: a constraint or a trigger refuses a row with any of
   * them, and so does the table as a whole. An insert of no rows tells the two apart.
   */
  mayConcernRows(error: unknown): boolean;
  /** Too many connections, or too many requests. */
  readonly aboutTheRate: readonly string[];
  /** Refusals of the statement that no retry changes. */
  readonly refusals: Reasons;
  /** Refusals of one row that no retry changes; all others are, unless they are transient. */
  readonly refusalsOfRows: Reasons;
  readonly transient: RegExp;
  /** Messages of the driver's own errors. */
  readonly driver: readonly (readonly [words: RegExp, result: DeliveryResult])[];
}

interface RowKind<Settings extends RowSettings> {
  readSettings(settings: JsonObject): Settings | undefined;
  /** Bytes of one batch as JSON. */
  readonly maxBytes: number;
  /** Loads the driver; opens no connection. */
  open(settings: Settings, destination: ConnectorDestination): Promise<TableClient>;
  readonly errors: RowErrors;
}

const MAX_CLIENTS = 100;

export function createRowConnector<Settings extends RowSettings>(
  context: ConnectorContext,
  { readSettings, maxBytes, open, errors }: RowKind<Settings>,
): Connector {
  const limits = { events: MAX_ROWS, bytes: maxBytes };

  /** Inserts rows, and creates the table at the first error that it does not exist. */
  const insert = async (client: TableClient, settings: Settings, deliveries: readonly Delivery[]) => {
    try {
      await client.insert(deliveries);
    } catch (error) {
      if (errors.codeOf(error) !== errors.tableMissing || !settings.create_table) throw error;
      await client.createTable().catch((refusal: unknown) => {
        if (!errors.tableThere.includes(errors.codeOf(refusal) ?? '')) throw refusal;
      });
      await client.insert(deliveries);
    }
  };

  const sendPart = async (
    client: TableClient,
    settings: Settings,
    part: Part,
    call: ConnectorCall,
    probe: Probe,
  ): Promise<PartResult> => {
    try {
      await untilAborted(insert(client, settings, part), call.deadline);
      return { result: DELIVERED, mayBeSplit: false };
    } catch (error) {
      const code = errors.codeOf(error);
      if (code === undefined || !errors.mayConcernRows(error))
        return { result: call.failed(error), mayBeSplit: false };
      const ofAll = await probe();
      return ofAll === undefined
        ? { result: classifyRowRefusal(errors, error, code, settings), mayBeSplit: true }
        : { result: ofAll, mayBeSplit: false };
    }
  };

  return createClientConnector<Settings, TableClient>(context, {
    readSettings,
    limits: () => limits,
    open,
    maxClients: MAX_CLIENTS,
    keepsClient: (error) => errors.mayConcernRows(error),
    classifyFailure: (error, { lastFailure }) => classifyRowFailure(errors, error, lastFailure),

    send(client, settings, batch, call) {
      const probe = createProbe(call, () => insert(client, settings, []));
      return sendInParts(batch, {
        send: (part) => sendPart(client, settings, part, call, probe),
        hasTimeToHalve: call.hasTimeToHalve,
      });
    },

    async test(client, settings, { deadline }) {
      await untilAborted(insert(client, settings, []), deadline);
      return { ok: true };
    },
  });
}

function reasonOf(reasons: Reasons, code: string): string | undefined {
  return reasons.find(([start]) => code.startsWith(start))?.[1];
}

/**
 * The result of a refused row, once the table is known to accept others: retried after a transient error, else dead. The
 * message of the server is kept as the response: it is about the table and the row.
 */
export function classifyRowRefusal(
  { transient, refusalsOfRows }: Pick<RowErrors, 'transient' | 'refusalsOfRows'>,
  error: unknown,
  code: string,
  { password = '' }: Pick<RowSettings, 'password'>,
): DeliveryResult {
  const words = error instanceof Error ? error.message : '';
  const response = excerptOf(Buffer.from(words), secretTexts({ secret: password, headers: [] }));
  const shown = response === '' ? {} : { response };
  if (transient.test(code)) return { outcome: 'retry', reason: `the server answered ${code}`, ...shown };
  const reason = reasonOf(refusalsOfRows, code) ?? 'the row is refused';
  return { outcome: 'dead', reason: `${reason} (${code})`, ...shown };
}

/**
 * The result of a failed statement. `lastFailure` is the error of a connection, which the driver may wrap. Undefined for an
 * error that is neither of the server nor of the network.
 */
export function classifyRowFailure(
  { codeOf, aboutTheRate, refusals, driver }: RowErrors,
  error: unknown,
  lastFailure: Error | undefined,
): DeliveryResult | undefined {
  const code = codeOf(error);
  if (code !== undefined) {
    const reason = reasonOf(refusals, code);
    if (reason !== undefined) return { outcome: 'dead', reason: `${reason} (${code})` };
    const throttled = aboutTheRate.includes(code) ? ({ throttled: true } as const) : {};
    return { outcome: 'retry', ...throttled, reason: `the server answered ${code}` };
  }
  const ofDriver =
    error instanceof Error ? driver.find(([words]) => words.test(error.message))?.[1] : undefined;
  const network = ofDriver === undefined ? classifyNetworkFailure(error) : undefined;
  if (network !== undefined) return network;
  const ofConnection = lastFailure === undefined ? undefined : classifyNetworkFailure(lastFailure);
  return ofConnection ?? ofDriver;
}
