import { isIP, type Socket } from 'node:net';
import { connect as openSecure } from 'node:tls';
import {
  type Connector,
  type ConnectorDescription,
  type Delivery,
  type JsonObject,
  MAX_CONCURRENCY,
} from '@tributary/core';
import type { Connection, QueryError } from 'mysql2';
import {
  COLUMNS,
  type ColumnTypes,
  columnsText,
  createRowConnector,
  createTableField,
  databaseFields,
  MAX_ROWS,
  type RowErrors,
  rowOf,
  type TableClient,
} from '../client/rows.ts';
import { Connections } from '../egress/connections.ts';
import { type EgressGuard, HANDSHAKE } from '../egress/guard.ts';
import {
  inspectResponses,
  limitBytes,
  MessageBuffer,
  type ResponseFilter,
} from '../egress/response-heads.ts';
import { PasswordInClear, RESET, ResponseRefused, ResponseTooLarge } from '../failures.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import type { SettingsOf } from '../settings.ts';
import { createSettingsReader, secretNames } from '../settings.ts';

const TYPES: ColumnTypes = {
  id: 'char(36) character set ascii',
  text: 'text',
  time: 'datetime(3)',
  integer: 'int',
  json: 'json',
};

const NAME = '[A-Za-z_][A-Za-z0-9_]{0,62}';

/** The settings as users write them. */
const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['host', 'database', 'username'],
  additionalProperties: false,
  properties: {
    ...databaseFields('The server: MySQL (8.0 or newer) or MariaDB (10.6 or newer).', 3306),
    table: {
      type: 'string',
      title: 'Table',
      description: 'Where to insert.',
      default: 'tributary_events',
      pattern: `^${NAME}$`,
    },
    create_table: createTableField,
  },
} as const satisfies JsonObject;

/** The type of the schema above. */
type MysqlSettings = SettingsOf<typeof settingsSchema>;

const description: ConnectorDescription = {
  type: 'mysql',
  title: 'MySQL',
  description: [
    'Inserts each delivery as one row of a MySQL or MariaDB table, a batch in one statement with `on duplicate key update`, which changes nothing: a delivery is one row, however often it is sent.',
    `The columns are ${columnsText(TYPES)} Times are in UTC. A table of your own needs these columns and a unique index on \`delivery_id\`, and no other: a row that is in another unique index already is left out without an error. It may have more columns, with defaults.`,
    'A batch that some rows cause to be refused (a value, a constraint, a trigger) is sent again in parts: a row that is refused alone is dead with the error number and the message, or retried where the error is transient, such as a deadlock (1213). A server that is unreachable, starting, full or read-only, and a broken connection are retried; too many connections set the pace of the destination. A wrong password, a missing permission or database, and a table that does not fit are dead; so is a server that asks for the password in clear without TLS. Without TLS MySQL signs in a user of `caching_sha2_password`, its default, only after that user signed in with TLS elsewhere.',
    'The connection test signs in, creates the table where `create_table` is set, and inserts no rows.',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  harmless: ['database', 'table', 'create_table'],
  safestFirst: { tls: [true, false] },
  maxBatch: MAX_ROWS,
  hasTest: true,
};

export const mysql: ConnectorKind = { description, create: createMysqlConnector };

const readSettings = createSettingsReader<MysqlSettings>(settingsSchema);

function createMysqlConnector({ egress, ...context }: ConnectorContext): Connector {
  return createRowConnector<MysqlSettings>(
    { egress, ...context },
    {
      readSettings,
      // Half of the smallest usual `max_allowed_packet`, as each quote of the JSON is escaped.
      maxBytes: 2 * 1_024 * 1_024,
      open: (settings) => openTableClient(egress, settings, context.timeoutMs),
      errors: ERRORS,
    },
  );
}

/** The error number of an error of the server; undefined for any other error. */
function errorNumberOf(error: unknown): string | undefined {
  if (!(error instanceof Error && 'sqlState' in error && 'errno' in error)) return undefined;
  return typeof error.errno === 'number' ? String(error.errno) : undefined;
}

const PACKET_TOO_LARGE = '1153';
/** Too many connections (of the server, of a user), and a limit of statements an hour. */
const ABOUT_THE_RATE = ['1040', '1203', '1226'];

/** Errors about the server or its credentials: https://mariadb.com/kb/en/mariadb-error-code-reference/ */
const ABOUT_THE_SERVER = new Set([
  ...ABOUT_THE_RATE,
  ...['1021', '1037', '1038', '1041', '1044', '1045', '1049', '1053', '1114', '1129', '1130', '1290', '1698'],
  ...['1792', '1836', '1927', '3159', '4031', '4151'],
]);

const ERRORS: RowErrors = {
  codeOf: errorNumberOf,
  tableMissing: '1146',
  tableThere: ['1050'],
  mayConcernRows(error) {
    const number = errorNumberOf(error);
    return number !== undefined && !ABOUT_THE_SERVER.has(number);
  },
  aboutTheRate: ABOUT_THE_RATE,
  refusals: [
    ['1045', 'not authenticated'],
    ['1130', 'not authenticated'],
    ['1698', 'not authenticated'],
    ['3159', 'not authenticated'],
    ['4151', 'not authenticated'],
    ['1044', 'permission denied'],
    ['1142', 'permission denied'],
    ['1143', 'permission denied'],
    ['1227', 'permission denied'],
    ['1049', 'the database is not there'],
    ['1146', 'the table is not there'],
    ['1054', 'the table does not fit'],
    ['1136', 'the table does not fit'],
    ['1364', 'the table does not fit'],
    ['1471', 'the table does not fit'],
  ],
  refusalsOfRows: [
    ['1048', 'a constraint is violated'],
    ['1062', 'a constraint is violated'],
    [PACKET_TOO_LARGE, 'a value is not taken'],
    ['1264', 'a value is not taken'],
    ['1292', 'a value is not taken'],
    ['1366', 'a value is not taken'],
    ['1406', 'a value is not taken'],
    ['1452', 'a constraint is violated'],
    ['1644', 'a trigger refuses the row'],
    ['3140', 'a value is not taken'],
    ['3819', 'a constraint is violated'],
    ['4025', 'a constraint is violated'],
  ],
  // Out of memory or space, a lock, a deadlock, a server that shuts down, a killed statement, a transaction elsewhere.
  transient: /^(1021|1037|1038|1041|1053|1105|1114|1180|1205|1213|1317|1412|1613|1614|1969|3024|3572)$/,
  driver: [
    [/^Connection lost/, RESET],
    [/does not support secure connection/i, { outcome: 'dead', reason: 'the server speaks no TLS' }],
    [
      /authentication|auth plugin|mysql_clear_password|Auth\w*MoreData/i,
      { outcome: 'dead', reason: 'not authenticated' },
    ],
  ],
};

const IDLE_MS = 30_000;
/** Bytes since the last statement. */
const MAX_UNASKED_BYTES = 256 * 1_024;

/** A session whose values are refused rather than shortened, whose backslashes escape, and whose times are in UTC. */
const SESSION = `set session sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00'`;

/** The private parts of the driver's connection that are used here. */
interface DriverConnection {
  stream: Socket;
  readonly packetParser: { execute(bytes: Buffer): void };
  readonly sequenceId: number;
  startTLS: (done: (error?: Error) => void) => void;
}

/** A connection with its statements in the session described above. */
interface Session {
  readonly connection: Connection;
  readonly socket: Socket;
}

/** A pool of connections that are opened on demand, one for each concurrent call. */
async function openTableClient(
  egress: EgressGuard,
  { host, port, tls, ca, database, username, password = '', table }: MysqlSettings,
  timeoutMs: number,
): Promise<TableClient> {
  const { createConnection } = await import('mysql2');
  const connections = new Connections(egress);
  const idle: (Session & { readonly timer: NodeJS.Timeout })[] = [];
  let isClosed = false;

  const open = (): Session => {
    const socket = connections.socket();
    const connection = createConnection({
      host,
      port,
      user: username,
      password,
      database,
      // Makes the driver ask for encryption; `startTLS` below opens it.
      ...(tls ? { ssl: {} } : {}),
      stream: socket,
      connectTimeout: timeoutMs,
      // No files of this machine, no further statements.
      flags: ['-LOCAL_FILES', '-MULTI_STATEMENTS'],
    });
    // The statement under way is rejected with it as well; without a listener it would end the process.
    connection.on('error', () => {});
    const driver = connection as unknown as DriverConnection;
    inspectPackets(socket, driver, { isEncrypted: false, isGreeting: true, mayContinue: !tls });
    // The driver's own would check the certificate of an address against `localhost`.
    driver.startTLS = (done) => {
      socket.removeAllListeners('data');
      const secure = openSecure({ ...HANDSHAKE, ca, socket, host, servername: isIP(host) ? '' : host });
      inspectPackets(secure, driver, { isEncrypted: true, isGreeting: false, mayContinue: true });
      secure.once('secureConnect', () => done());
      // It has closed the socket by then, so that `destroy` would not tell of the error; and it repeats what the socket emits.
      secure.once('error', (error) => socket.emit('error', error)).on('error', () => {});
      secure.on('data', (bytes: Buffer) => driver.packetParser.execute(bytes));
      driver.stream = secure;
    };
    socket.connect(port, host);
    return { connection, socket };
  };

  const run = ({ connection }: Session, statement: string, values: readonly unknown[] = []) =>
    new Promise<void>((resolve, reject) => {
      connection.query(statement, [...values], (error: QueryError | null) =>
        error === null ? resolve() : reject(error),
      );
    });

  const drop = ({ connection, socket }: Session) => {
    connection.destroy();
    socket.destroy();
  };

  const keep = (session: Session) => {
    if (isClosed || idle.length >= MAX_CONCURRENCY) drop(session);
    else idle.push({ ...session, timer: setTimeout(() => drop(session), IDLE_MS).unref() });
  };

  /** An idle connection that is still open, or a new one. */
  const take = async (): Promise<Session> => {
    for (let kept = idle.pop(); kept !== undefined; kept = idle.pop()) {
      clearTimeout(kept.timer);
      if (kept.socket.writable) return kept;
    }
    const session = open();
    try {
      await run(session, SESSION);
    } catch (error) {
      drop(session);
      throw error;
    }
    return session;
  };

  /** A connection stays usable after a refusal by the server, except of a packet; any other error closes it. */
  const query = async (statement: string, values?: readonly unknown[]): Promise<void> => {
    const session = await take();
    try {
      await run(session, statement, values);
    } catch (error) {
      if (ERRORS.mayConcernRows(error) && errorNumberOf(error) !== PACKET_TOO_LARGE) keep(session);
      else drop(session);
      throw error;
    }
    keep(session);
  };

  return {
    get lastFailure() {
      return connections.lastFailure;
    },
    insert: (deliveries) =>
      deliveries.length === 0
        ? query(insertNothing(table))
        : query(insertStatement(table), [deliveries.map(valuesOf)]),
    createTable: () => query(createTable(table)),
    async close() {
      isClosed = true;
      for (const { timer } of idle.splice(0)) clearTimeout(timer);
      connections.end();
    },
  };
}

const NAMES = COLUMNS.map(([name]) => `\`${name}\``).join(', ');

function createTable(table: string): string {
  const columns = COLUMNS.map(
    ([name, kind]) => `\`${name}\` ${TYPES[kind]}${kind === 'id' ? ' primary key' : ''}`,
  );
  return `create table if not exists \`${table}\` (${columns.join(', ')}, \`inserted_at\` datetime(3) not null default current_timestamp(3)) default character set utf8mb4`;
}

function insertStatement(table: string): string {
  return `insert into \`${table}\` (${NAMES}) values ? on duplicate key update \`delivery_id\` = \`delivery_id\``;
}

/** Needs the same permission and columns. */
function insertNothing(table: string): string {
  return `insert into \`${table}\` (${NAMES}) select ${COLUMNS.map(() => 'null').join(', ')} from dual where 1 = 0`;
}

const TIME = /^(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2}:\d{2}\.\d{3})Z$/;

function valuesOf(delivery: Delivery): readonly (string | number | null)[] {
  return rowOf(delivery).map((value, at) =>
    COLUMNS[at]?.[1] === 'time' && typeof value === 'string' ? value.replace(TIME, '$1 $2') : value,
  );
}

const HEADER_BYTES = 4;
/** Bytes of a packet: an error may quote a value, and a success list settings of the session. */
const MAX_PACKET_BYTES = 64 * 1_024;

const OK = 0x00;
const MORE = 0x01;
const SWITCH = 0xfe;
const ERROR = 0xff;
/** Version 10 of the protocol, at the beginning of a greeting. */
const GREETING = 0x0a;
/** Asks for the password itself, for `caching_sha2_password`. */
const FULL_AUTHENTICATION = 4;
/** Ways to sign in that do not send the password. */
const HASHED = new Set(['mysql_native_password', 'caching_sha2_password']);

interface PacketRules {
  readonly isEncrypted: boolean;
  /** Whether the next packet is the greeting of the server. */
  isGreeting: boolean;
  /** Whether packets follow the greeting before the connection is encrypted. */
  readonly mayContinue: boolean;
}

/** Puts the checks of the server's packets in front of the driver. */
function inspectPackets(stream: Socket, driver: DriverConnection, rules: PacketRules): void {
  const bounded = limitBytes(stream, MAX_UNASKED_BYTES);
  const packets = checkPackets(rules, () => driver.sequenceId);
  inspectResponses(stream, function* inspect(chunk) {
    for (const some of bounded(chunk)) yield* packets(some);
  });
}

/**
 * Passes complete packets to the driver one by one: of signing in, then the successes and errors that the statements here
 * have, in their sequence. The driver allocates any announced packet, reads rows and files that were not asked for, prints
 * what is out of sequence, and without TLS encrypts the password for a key that anybody may have sent.
 */
function checkPackets(rules: PacketRules, sequence: () => number): ResponseFilter {
  const came = new MessageBuffer();
  let isSigningIn = true;

  const check = (packet: Buffer, mark: number | undefined) => {
    if (packet[3] !== sequence()) throw new ResponseRefused('the packet is out of sequence');
    if (mark === ERROR) return;
    if (rules.isGreeting) {
      rules.isGreeting = false;
      if (mark !== GREETING) throw new ResponseRefused('the server greets in another protocol');
      return;
    }
    if (!rules.mayContinue) throw new ResponseRefused('the server goes on before it is encrypted');
    if (mark === OK) {
      isSigningIn = false;
      return;
    }
    if (!isSigningIn || (mark !== MORE && mark !== SWITCH))
      throw new ResponseRefused('the server sent an unexpected packet');
    if (rules.isEncrypted) return;
    const asks = packet.subarray(HEADER_BYTES + 1);
    const isHashed =
      mark === MORE
        ? asks[0] !== FULL_AUTHENTICATION
        : HASHED.has(asks.toString('latin1').split('\0', 1)[0] ?? '');
    if (!isHashed) throw new PasswordInClear('the server asks for the password in clear');
  };

  return function* inspect(chunk) {
    came.add(chunk);
    while (true) {
      const length = came.peek(HEADER_BYTES)?.readUIntLE(0, 3);
      if (length === undefined) return;
      if (length > MAX_PACKET_BYTES) throw new ResponseTooLarge('the answer is too long');
      const packet = came.take(HEADER_BYTES + length);
      if (packet === undefined) return;
      check(packet, packet[HEADER_BYTES]);
      yield packet;
    }
  };
}
