import type { Socket } from 'node:net';
import { type Delivery, MAX_CONCURRENCY, readServerFirst, ScramRefused } from '@tributary/core';
import pg from 'pg';
import { keyDerivations } from '../client/thread-pool-queue.ts';
import { Connections } from '../egress/connections.ts';
import { type EgressGuard, HANDSHAKE } from '../egress/guard.ts';
import {
  boundedAnswers,
  type Inspect,
  inspectAnswers,
  MessageBuffer,
} from '../egress/response-inspection.ts';
import { AnswerRefused, PasswordInClear, TooMuchAnswered } from '../failures.ts';
import { sqlStateOf } from './errors.ts';
import type { PostgresSettings } from './settings.ts';
import { createTable, insertStatement, insertValues } from './table.ts';

const IDLE_MS = 30_000;

/** What of the driver is used. */
export interface TableClient {
  /** What a connection met with last. */
  readonly lastFailure: Error | undefined;
  /** Rejects with the server's refusal. Resolves once the rows are committed. */
  insert(deliveries: readonly Delivery[]): Promise<void>;
  createTable(): Promise<void>;
  close(): Promise<void>;
}

export function openTableClient(
  egress: EgressGuard,
  settings: PostgresSettings,
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
    // Without one the driver would look for a file of passwords on this machine.
    password: password ?? '',
    ssl: tls ? { ...HANDSHAKE, ...(ca === undefined ? {} : { ca }) } : false,
    stream: () => connections.socket(),
    // One for each call that is made at a time, whose deadline runs; they are opened as they are needed.
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
      // Neither prepared nor with settings of the session: the server may stand behind a pool of connections.
      await query(pool, insertStatement(table), insertValues(deliveries));
    },
    createTable: () => query(pool, createTable(table), []),
    async close() {
      const ended = pool.end();
      connections.end();
      await ended;
    },
  };
}

/** A connection on which the server refused a statement is as good as before; any other failure ends it. */
async function query(pool: pg.Pool, text: string, values: unknown[]): Promise<void> {
  const client = await pool.connect();
  // The statement is told too what becomes of its connection; without a listener it would end the process.
  client.on('error', ignore);
  try {
    await client.query(text, values);
    client.release();
  } catch (error) {
    client.release(sqlStateOf(error) === undefined);
    throw error;
  } finally {
    client.off('error', ignore);
  }
}

function ignore(): void {}

const MAX_UNASKED_BYTES = 1_024 * 1_024;

/** pg's own answer to the first message of a server that speaks SCRAM. */
type ContinueScram = (message: { readonly data: string }) => Promise<void>;

/**
 * A client of pg whose server is held to bounds: its messages are looked at before pg parses them, also below TLS, and
 * the key that SCRAM needs is derived with an accepted number of iterations, one at a time in the process.
 */
function boundedClient(workspaceId: string, isEncrypted: boolean): typeof pg.Client {
  return class BoundedClient extends pg.Client {
    constructor(config?: pg.ClientConfig) {
      super(config);
      const { connection } = this;
      const attach: (stream: Socket) => void = Reflect.get(connection, 'attachListeners').bind(connection);
      const attachInspected = (stream: Socket) => {
        const bounded = boundedAnswers(stream, MAX_UNASKED_BYTES);
        const messages = postgresAnswers({ isEncrypted });
        attach(
          inspectAnswers(stream, function* inspect(chunk) {
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

/** A message of the server: an error names the row that it refused, and the longest of a list of names is shorter. */
const MAX_MESSAGE_BYTES = 256 * 1_024;
const MAX_SASL_BYTES = 8 * 1_024;
const MAX_TAG_BYTES = 1_024;

const AUTHENTICATION = { ok: 0, cleartext: 3, md5: 5, sasl: 10, saslContinue: 11, saslFinal: 12 };

/** True for the body of a well-formed message; it begins behind the length. */
type Check = (body: Buffer) => boolean;

const isEmpty: Check = (body) => body.length === 0;
const isOneText: Check = (body) => body.length <= MAX_TAG_BYTES && textsIn(body, 0) === 1;
const isTwoTexts: Check = (body) => body.length <= MAX_SASL_BYTES && textsIn(body, 0) === 2;

/** By type, those that the statements of this connector have for an answer. */
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
 * Hands pg the messages of a server one by one, each whole and well-formed. For one that is malformed pg throws out of a
 * listener, which ends the process, or never comes back; and it gives the password in clear to any server that asks.
 */
export function postgresAnswers({ isEncrypted }: { readonly isEncrypted: boolean }): Inspect {
  const came = new MessageBuffer();
  return function* inspect(chunk) {
    came.add(chunk);
    while (true) {
      const head = came.peek(5);
      if (head === undefined) return;
      const length = head.readUInt32BE(1);
      if (length > MAX_MESSAGE_BYTES) throw new TooMuchAnswered('the answer is too long');
      if (length < 4) throw new AnswerRefused('the message has no length');
      const message = came.take(1 + length);
      if (message === undefined) return;
      const type = message.toString('latin1', 0, 1);
      const body = message.subarray(5);
      const isExpected = type === 'R' ? isAuthentication(body, isEncrypted) : EXPECTED.get(type)?.(body);
      if (isExpected !== true) throw new AnswerRefused('the message is none that was asked for');
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

/** How many texts, each with a zero behind it, make up the body from there; 0 where something is left. */
function textsIn(body: Buffer, from: number): number {
  if (body.length === 0 || body.at(-1) !== 0) return 0;
  let texts = 0;
  for (let at = from; at < body.length; texts++) at = body.indexOf(0, at) + 1;
  return texts;
}
