import type { Socket } from 'node:net';
import { type Delivery, MAX_CONCURRENCY, readServerFirst, ScramRefused } from '@tributary/core';
import pg from 'pg';
import { COLUMNS, type ColumnTypes, rowOf, type TableClient } from '../client/rows.ts';
import { keyDerivations } from '../client/thread-pool-queue.ts';
import { Connections } from '../egress/connections.ts';
import { type EgressGuard, HANDSHAKE } from '../egress/guard.ts';
import {
  inspectResponses,
  limitBytes,
  MessageBuffer,
  type ResponseFilter,
} from '../egress/response-heads.ts';
import { PasswordInClear, ResponseRefused, ResponseTooLarge } from '../failures.ts';

/** The type of the schema above. */
export interface PostgresSettings {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  readonly ca?: string;
  readonly database: string;
  readonly username: string;
  readonly password?: string;
  readonly table: string;
  readonly create_table: boolean;
}

const IDLE_MS = 30_000;

export function openTableClient(
  egress: EgressGuard,
  settings: PostgresSettings,
  types: ColumnTypes,
  { timeoutMs, workspaceId }: { readonly timeoutMs: number; readonly workspaceId: string },
): TableClient {
  const { host, port, tls, ca, database, username, password, table } = settings;
  const connections = new Connections(egress);
  const pool = new pg.Pool({
    Client: boundedClient(workspaceId, tls),
    host,
    port,
    database,
    user: username,
    // Without a password the driver would read the password file of this machine.
    password: password ?? '',
    ssl: tls ? { ...HANDSHAKE, ...(ca === undefined ? {} : { ca }) } : false,
    stream: () => connections.socket(),
    // One for each concurrent call; opened on demand.
    max: MAX_CONCURRENCY,
    idleTimeoutMillis: IDLE_MS,
    connectionTimeoutMillis: timeoutMs,
    application_name: 'tributary',
  });
  // An idle connection that breaks is replaced; without a listener it would end the process.
  pool.on('error', ignore);

  return {
    get lastFailure() {
      return connections.lastFailure;
    },
    async insert(deliveries) {
      // Not prepared and without session settings: the server may be behind a connection pooler.
      await query(pool, insertStatement(table, types), insertValues(deliveries));
    },
    createTable: () => query(pool, createTable(table, types), []),
    async close() {
      const ended = pool.end();
      connections.end();
      await ended;
    },
  };
}

/** Runs a statement. A connection stays usable after a refusal by the server; any other error closes it. */
async function query(pool: pg.Pool, text: string, values: unknown[]): Promise<void> {
  const client = await pool.connect();
  // Errors of the connection reject the statement as well; without a listener they would end the process.
  client.on('error', ignore);
  try {
    await client.query(text, values);
    client.release();
  } catch (error) {
    client.release(!(error instanceof pg.DatabaseError));
    throw error;
  } finally {
    client.off('error', ignore);
  }
}

function ignore(): void {}

/** The `table` or `schema.table` of the settings as quoted SQL identifiers. */
function quoted(table: string): string {
  return table
    .split('.')
    .map((part) => `"${part.replaceAll('"', '""')}"`)
    .join('.');
}

export function createTable(table: string, types: ColumnTypes): string {
  const columns = COLUMNS.map(
    ([name, kind]) => `"${name}" ${types[kind]}${kind === 'id' ? ' primary key' : ''}`,
  );
  return `create table if not exists ${quoted(table)} (${columns.join(', ')}, "inserted_at" timestamptz not null default now())`;
}

/** One array for each column, so that the statement is the same for any number of deliveries. */
export function insertStatement(table: string, types: ColumnTypes): string {
  const names = COLUMNS.map(([name]) => `"${name}"`).join(', ');
  const arrays = COLUMNS.map(([, kind], index) => `$${index + 1}::${types[kind]}[]`).join(', ');
  return `insert into ${quoted(table)} (${names}) select * from unnest(${arrays}) on conflict ("delivery_id") do nothing`;
}

function insertValues(deliveries: readonly Delivery[]): unknown[][] {
  const rows = deliveries.map(rowOf);
  return COLUMNS.map((_, index) => rows.map((row) => row[index]));
}

const MAX_UNASKED_BYTES = 1_024 * 1_024;

/** pg's handler of the server's first SCRAM message. */
type ContinueScram = (message: { readonly data: string }) => Promise<void>;

/**
 * A client of pg that limits its server: messages are checked before pg parses them, also inside TLS, and the SCRAM key is
 * derived with an accepted number of iterations, one derivation at a time in the process.
 */
function boundedClient(workspaceId: string, isEncrypted: boolean): typeof pg.Client {
  return class BoundedClient extends pg.Client {
    constructor(config?: pg.ClientConfig) {
      super(config);
      const { connection } = this;
      const attach: (stream: Socket) => void = Reflect.get(connection, 'attachListeners').bind(connection);
      const attachInspected = (stream: Socket) => {
        const bounded = limitBytes(stream, MAX_UNASKED_BYTES);
        const messages = checkMessages({ isEncrypted });
        attach(
          inspectResponses(stream, function* inspect(chunk) {
            for (const some of bounded(chunk)) yield* messages(some);
          }),
        );
      };
      Object.defineProperty(connection, 'attachListeners', { value: attachInspected });
    }

    async _handleAuthSASLContinue(message: { readonly data: string }): Promise<void> {
      const { connection } = this;
      try {
        const proceed: ContinueScram = Reflect.get(pg.Client.prototype, '_handleAuthSASLContinue');
        readServerFirst(message.data);
        await keyDerivations.take(
          workspaceId,
          () => !connection.stream.destroyed,
          () => proceed.call(this, message),
        );
      } catch (error) {
        const isRefused = error instanceof ScramRefused;
        connection.emit('error', isRefused ? new Error(`SCRAM: ${error.message}`, { cause: error }) : error);
      }
    }
  };
}

/** Bytes of a server message: an error may contain the row that was refused. */
const MAX_MESSAGE_BYTES = 256 * 1_024;
const MAX_SASL_BYTES = 8 * 1_024;
const MAX_TAG_BYTES = 1_024;

const AUTHENTICATION = { ok: 0, cleartext: 3, md5: 5, sasl: 10, saslContinue: 11, saslFinal: 12 };

/** Whether the body of a message, behind its length, is well-formed. */
type Check = (body: Buffer) => boolean;

const isEmpty: Check = (body) => body.length === 0;
const isOneText: Check = (body) => body.length <= MAX_TAG_BYTES && textsIn(body, 0) === 1;
const isTwoTexts: Check = (body) => body.length <= MAX_SASL_BYTES && textsIn(body, 0) === 2;

/** By type, the messages that the statements of this connector receive. */
const EXPECTED: ReadonlyMap<string, Check> = new Map<string, Check>([
  ['1', isEmpty], // parse complete
  ['2', isEmpty], // bind complete
  ['3', isEmpty], // close complete
  ['I', isEmpty], // empty query
  ['n', isEmpty], // no data
  ['s', isEmpty], // portal suspended
  ['C', isOneText], // command complete
  ['E', isReport],
  ['N', isReport],
  ['K', (body) => body.length === 8], // backend key
  ['S', isTwoTexts], // parameter status
  ['Z', (body) => body.length === 1 && 'ITE'.includes(body.toString('latin1'))], // ready
]);

/**
 * Passes complete, well-formed messages to pg one by one. At a malformed one pg throws out of a listener, which ends the
 * process, or loops for ever; and it sends the password in clear to any server that requests it.
 */
export function checkMessages({ isEncrypted }: { readonly isEncrypted: boolean }): ResponseFilter {
  const came = new MessageBuffer();
  return function* inspect(chunk) {
    came.add(chunk);
    while (true) {
      const head = came.peek(5);
      if (head === undefined) return;
      const length = head.readUInt32BE(1);
      if (length > MAX_MESSAGE_BYTES) throw new ResponseTooLarge('the answer is too long');
      if (length < 4) throw new ResponseRefused('the message is shorter than its length field');
      const message = came.take(1 + length);
      if (message === undefined) return;
      const type = message.toString('latin1', 0, 1);
      const body = message.subarray(5);
      const isExpected = type === 'R' ? isAuthentication(body, isEncrypted) : EXPECTED.get(type)?.(body);
      if (isExpected !== true) throw new ResponseRefused('the server sent an unexpected message');
      yield message;
    }
  };
}

function isAuthentication(body: Buffer, isEncrypted: boolean): boolean {
  if (body.length < 4 || body.length > MAX_SASL_BYTES) return false;
  switch (body.readInt32BE(0)) {
    case AUTHENTICATION.ok:
      return body.length === 4;
    case AUTHENTICATION.cleartext:
      if (!isEncrypted) throw new PasswordInClear('the server asks for the password in clear');
      return body.length === 4;
    case AUTHENTICATION.md5:
      return body.length === 8;
    case AUTHENTICATION.sasl:
      return body.length > 5 && body.at(-1) === 0 && body.at(-2) === 0 && textsIn(body, 4) > 0;
    case AUTHENTICATION.saslContinue:
    case AUTHENTICATION.saslFinal:
      return true;
    default:
      return false;
  }
}

/** An error or a notice: fields of a letter and a text each, and a zero behind the last. */
function isReport(body: Buffer): boolean {
  let at = 0;
  while (at < body.length && body[at] !== 0) {
    const end = body.indexOf(0, at + 1);
    if (end === -1) return false;
    at = end + 1;
  }
  return at === body.length - 1;
}

/** The number of zero-terminated texts that the body consists of from an offset; 0 where bytes are left over. */
function textsIn(body: Buffer, from: number): number {
  if (body.length === 0 || body.at(-1) !== 0) return 0;
  let texts = 0;
  for (let at = from; at < body.length; texts++) at = body.indexOf(0, at) + 1;
  return texts;
}
