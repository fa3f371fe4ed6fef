import type { Socket } from 'node:net';
import { readServerFirst, ScramRefused } from '@tributary/core';
import pg from 'pg';
import type { DatabaseSettings } from '../client/rows.ts';
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
import { sqlStateOf } from './server.ts';

const IDLE_MS = 30_000;
/** Hundreds of tables with hundreds of columns are described for each of the loads of a minute. */
const MAX_BYTES_OF_ROWS_A_MINUTE = 256 * 1_024 * 1_024;

interface PoolOptions {
  readonly timeoutMs: number;
  readonly workspaceId: string;
  /** Connections at most; opened on demand. */
  readonly max: number;
  /** Whether statements return rows or copy; otherwise a server that sends such messages is refused. */
  readonly hasRows?: true;
}

/** Connections to one PostgreSQL server, through the egress guard, whose messages are checked before pg parses them. */
export class ServerPool {
  readonly #connections: Connections;
  readonly #pool: pg.Pool;

  constructor(
    egress: EgressGuard,
    { host, port, tls, ca, database, username, password }: DatabaseSettings,
    { timeoutMs, workspaceId, max, hasRows }: PoolOptions,
  ) {
    const connections = new Connections(egress, hasRows ? MAX_BYTES_OF_ROWS_A_MINUTE : undefined);
    this.#connections = connections;
    this.#pool = new pg.Pool({
      Client: boundedClient(workspaceId, { isEncrypted: tls, ...(hasRows && { hasRows }) }),
      host,
      port,
      database,
      user: username,
      // Without a password the driver would read the password file of this machine.
      password: password ?? '',
      ssl: tls ? { ...HANDSHAKE, ...(ca === undefined ? {} : { ca }) } : false,
      stream: () => connections.socket(),
      max,
      idleTimeoutMillis: IDLE_MS,
      connectionTimeoutMillis: timeoutMs,
      application_name: 'tributary',
    });
    // An idle connection that breaks is replaced; without a listener it would end the process.
    this.#pool.on('error', ignore);
  }

  /** The last error of a connection, which the driver may wrap. */
  get lastFailure(): Error | undefined {
    return this.#connections.lastFailure;
  }

  /**
   * Runs statements on one connection. It stays usable after a refusal by the server; after any other error, and once the
   * signal is aborted, it is closed.
   */
  async use<T>(work: (client: pg.PoolClient) => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    const client = await this.#pool.connect();
    const abort = () => socketOf(client).destroy();
    // Errors of the connection reject the statement as well; without a listener they would end the process.
    client.on('error', ignore);
    signal?.addEventListener('abort', abort);
    try {
      signal?.throwIfAborted();
      const result = await work(client);
      client.release();
      return result;
    } catch (error) {
      client.release(sqlStateOf(error) === undefined);
      throw error;
    } finally {
      signal?.removeEventListener('abort', abort);
      client.off('error', ignore);
    }
  }

  async close(): Promise<void> {
    const ended = this.#pool.end();
    this.#connections.end();
    await ended;
  }
}

/** The socket of a client. */
export function socketOf(client: pg.PoolClient): Socket {
  const { connection } = client as unknown as { readonly connection: { readonly stream: Socket } };
  return connection.stream;
}

function ignore(): void {}

const MAX_UNASKED_BYTES = 1_024 * 1_024;

/** pg's handler of the server's first SCRAM message. */
type ContinueScram = (message: { readonly data: string }) => Promise<void>;

/**
 * A client of pg that limits its server: messages are checked before pg parses them, also inside TLS, and the SCRAM key is
 * derived with an accepted number of iterations, one derivation at a time in the process.
 */
function boundedClient(workspaceId: string, check: MessageCheck): typeof pg.Client {
  return class BoundedClient extends pg.Client {
    constructor(config?: pg.ClientConfig) {
      super(config);
      const { connection } = this;
      const attach: (stream: Socket) => void = Reflect.get(connection, 'attachListeners').bind(connection);
      const attachInspected = (stream: Socket) => {
        const bounded = limitBytes(stream, MAX_UNASKED_BYTES);
        const messages = checkMessages(check);
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

/** By type, the messages that statements without rows receive. */
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

/** The messages that queries and `COPY ... FROM STDIN` receive besides. */
const EXPECTED_WITH_ROWS: ReadonlyMap<string, Check> = new Map<string, Check>([
  ...EXPECTED,
  ['T', isRowDescription],
  ['D', isDataRow],
  ['G', (body) => body.length >= 3 && body.length === 3 + 2 * body.readInt16BE(1)], // copy in
]);

interface MessageCheck {
  readonly isEncrypted: boolean;
  readonly hasRows?: true;
}

/**
 * Passes complete, well-formed messages to pg one by one. At a malformed one pg throws out of a listener, which ends the
 * process, or loops for ever; and it sends the password in clear to any server that requests it.
 */
export function checkMessages({ isEncrypted, hasRows }: MessageCheck): ResponseFilter {
  const expected = hasRows ? EXPECTED_WITH_ROWS : EXPECTED;
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
      const isExpected = type === 'R' ? isAuthentication(body, isEncrypted) : expected.get(type)?.(body);
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

/** Bytes behind the name of each column. */
const COLUMN_BYTES = 18;

function isRowDescription(body: Buffer): boolean {
  if (body.length < 2) return false;
  let at = 2;
  for (let left = body.readInt16BE(0); left > 0; left--) {
    const end = body.indexOf(0, at);
    if (end === -1) return false;
    at = end + 1 + COLUMN_BYTES;
  }
  return at === body.length;
}

/** A count, and for each value its length, which is -1 for `null`, and its bytes. */
function isDataRow(body: Buffer): boolean {
  if (body.length < 2) return false;
  let at = 2;
  for (let left = body.readInt16BE(0); left > 0; left--) {
    if (at + 4 > body.length) return false;
    const length = body.readInt32BE(at);
    if (length < -1) return false;
    at += 4 + Math.max(0, length);
  }
  return at === body.length;
}
