import { createPrivateKey, createPublicKey, hash, type KeyObject, randomUUID } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import {
  isObject,
  type Json,
  type JsonObject,
  objectIn,
  Unavailable,
  WarehouseRefused,
} from '@tributary/core';
import { classifyResponse, type HttpRequest } from '../../http/client.ts';
import type { ConnectorContext } from '../../kind.ts';
import { HttpApi, signedToken } from '../http.ts';
import { StatementRefused } from '../merging/dialect.ts';
import { isOfWarehouse } from '../tables.ts';
import type { SnowflakeSettings } from './settings.ts';

/** Bytes of a response: of the catalog hundreds of tables with hundreds of columns. */
const MAX_RESPONSE_BYTES = 64 * 1_024 * 1_024;
/** A statement is answered within 45 s, if only to say that it runs on; a file is put within this time. */
const CALL_MS = 120_000;
/** Leaving a session takes at most this long, ms. */
const LEAVE_MS = 5_000;
/** Codes of a statement that runs on. */
const RUNS_ON = new Set(['333333', '333334']);

/** The version of Snowflake's driver whose protocol this is. */
const CLIENT = { CLIENT_APP_ID: 'JavaScript', CLIENT_APP_VERSION: '2.3.1' };

/** The result of a statement, with the names of its columns. */
export interface QueryResult {
  readonly names: readonly string[];
  readonly rows: readonly (readonly (string | null)[])[];
  /** All that the server told. */
  readonly data: JsonObject;
}

/** Speaks the protocol of Snowflake's drivers: JSON over HTTP, all through the egress guard. */
export class SnowflakeClient {
  readonly #settings: SnowflakeSettings;
  readonly #context: ConnectorContext;
  readonly #http: HttpApi;
  readonly #server: string;

  constructor(context: ConnectorContext, settings: SnowflakeSettings) {
    this.#settings = settings;
    this.#context = context;
    this.#http = new HttpApi(context, { maxResponseBytes: MAX_RESPONSE_BYTES, timeoutMs: CALL_MS });
    const { url, account } = settings;
    this.#server = url ?? `https://${account.toLowerCase().replaceAll('_', '-')}.snowflakecomputing.com`;
  }

  async signIn(signal: AbortSignal): Promise<SnowflakeSession> {
    const { warehouse, database, role } = this.#settings;
    const url = new URL('/session/v1/login-request', this.#server);
    const query = {
      requestId: randomUUID(),
      warehouse,
      databaseName: database,
      ...(role && { roleName: role }),
    };
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    const body = {
      data: {
        ...CLIENT,
        ...credentials(this.#settings, this.#context.clock()),
        CLIENT_ENVIRONMENT: { APPLICATION: 'Tributary' },
        SESSION_PARAMETERS: {
          AUTOCOMMIT: true,
          TIMEZONE: 'UTC',
          TIMESTAMP_INPUT_FORMAT: 'AUTO',
          QUOTED_IDENTIFIERS_IGNORE_CASE: false,
          // How long a load waits for another one, s.
          LOCK_TIMEOUT: 120,
          QUERY_TAG: 'tributary',
        },
      },
    };
    const { data } = await this.call('POST', url, { body, signal });
    const { token } = data;
    if (typeof token !== 'string') throw new Unavailable('Snowflake signed in without a token');
    return new SnowflakeSession(this, this.#server, token);
  }

  /** Resolves with the response of a call that succeeded, or whose statement runs on. */
  async call(
    method: 'GET' | 'POST',
    url: URL,
    {
      body,
      token,
      signal,
    }: { readonly body?: JsonObject; readonly token?: string; readonly signal: AbortSignal },
  ): Promise<{ readonly code: string | undefined; readonly data: JsonObject }> {
    const headers = [
      'accept',
      'application/json',
      'content-type',
      'application/json',
      'user-agent',
      'tributary',
    ];
    if (token !== undefined) headers.push('authorization', `Snowflake Token="${token}"`);
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const text = await this.send({ method, url, headers, ...sent }, signal);
    const response = parsed(text);
    const { success, code, message, data } = response;
    const codeText = typeof code === 'string' ? code : undefined;
    if (success !== true && !RUNS_ON.has(codeText ?? '')) {
      const what = typeof message === 'string' ? message : '';
      throw failureOfCode(codeText ?? '', this.#masked(what));
    }
    return { code: codeText, data: objectIn(data) };
  }

  /** Resolves with the body of a response that says that the request was carried out. */
  async send(request: HttpRequest, signal: AbortSignal): Promise<string> {
    const { status, retryAfter, start, whole } = await this.#http.send(request, signal);
    if (status === 401) throw new Unavailable('the session has ended');
    const result = classifyResponse({ status, retryAfter, excerpt: '' }, this.#context.clock());
    const what = `Snowflake ${'reason' in result ? result.reason : result.outcome}`;
    if (result.outcome === 'dead') throw new WarehouseRefused(what);
    if (result.outcome !== 'delivered') throw new Unavailable(what);
    if (!whole) throw new Unavailable('the answer of Snowflake is not whole');
    const isCompressed = start[0] === 0x1f && start[1] === 0x8b;
    return Buffer.from(isCompressed ? gunzipSync(start) : start).toString('utf8');
  }

  close(): Promise<void> {
    return this.#http.close();
  }

  #masked(text: string): string {
    const { password } = this.#settings;
    return password === undefined ? text : text.replaceAll(password, '***');
  }
}

/** A session: one statement after the other. */
export class SnowflakeSession {
  readonly beganAt = performance.now();
  readonly #client: SnowflakeClient;
  readonly #server: string;
  readonly #token: string;
  #statements = 0;

  constructor(client: SnowflakeClient, server: string, token: string) {
    this.#client = client;
    this.#server = server;
    this.#token = token;
  }

  async query(sqlText: string, signal: AbortSignal, values: readonly string[] = []): Promise<QueryResult> {
    this.#statements += 1;
    const url = new URL('/queries/v1/query-request', this.#server);
    url.searchParams.set('requestId', randomUUID());
    const bindings = Object.fromEntries(
      values.map((value, at) => [String(at + 1), { type: 'TEXT', value }] as const),
    );
    const body = {
      sqlText,
      asyncExec: false,
      sequenceId: this.#statements,
      querySubmissionTime: Date.now(),
      ...(values.length === 0 ? {} : { bindings }),
    };
    let response = await this.#client.call('POST', url, { body, token: this.#token, signal });
    while (RUNS_ON.has(response.code ?? '')) {
      const { getResultUrl } = response.data;
      const next = typeof getResultUrl === 'string' ? new URL(getResultUrl, this.#server) : undefined;
      if (next?.origin !== new URL(this.#server).origin)
        throw new Unavailable('Snowflake does not say where the result will be');
      response = await this.#client.call('GET', next, { token: this.#token, signal });
    }
    return this.#resultOf(response.data, signal);
  }

  /** Leaves the session, which undoes its open transaction. One that cannot be left ends by itself, within minutes where others wait. */
  async end(): Promise<void> {
    const url = new URL('/session', this.#server);
    url.searchParams.set('delete', 'true');
    url.searchParams.set('requestId', randomUUID());
    const call = { body: {}, token: this.#token, signal: AbortSignal.timeout(LEAVE_MS) };
    try {
      await this.#client.call('POST', url, call);
    } catch (error) {
      if (!isOfWarehouse(error)) throw error;
    }
  }

  async #resultOf(data: JsonObject, signal: AbortSignal): Promise<QueryResult> {
    const { rowtype, rowset, rowsetBase64, chunks } = data;
    if (typeof rowsetBase64 === 'string' && rowsetBase64 !== '')
      throw new Unavailable('Snowflake answers in another format than JSON');
    const names = Array.isArray(rowtype) ? rowtype.map((column) => String(objectIn(column).name)) : [];
    const rows = rowsIn(rowset ?? []);
    for (const chunk of Array.isArray(chunks) ? chunks : [])
      rows.push(...(await this.#chunk(objectIn(chunk), data, signal)));
    return { names, rows, data };
  }

  /** Rows of a large result are in the storage of the account. */
  async #chunk({ url }: JsonObject, { chunkHeaders, qrmk }: JsonObject, signal: AbortSignal) {
    const where = URL.parse(String(url));
    if (where === null) throw new Unavailable('Snowflake does not say where the result is');
    const ofKey: JsonObject =
      typeof qrmk === 'string'
        ? {
            'x-amz-server-side-encryption-customer-algorithm': 'AES256',
            'x-amz-server-side-encryption-customer-key': qrmk,
          }
        : {};
    const headers = Object.entries(isObject(chunkHeaders) ? chunkHeaders : ofKey)
      .flat()
      .map(String);
    const text = await this.#client.send({ method: 'GET', url: where, headers }, signal);
    return rowsIn(parsed(`{"rows":[${text}]}`).rows);
  }
}

function parsed(text: string): JsonObject {
  try {
    const value: Json = JSON.parse(text);
    if (isObject(value)) return value;
  } catch {
    // Told below.
  }
  throw new Unavailable('the answer of Snowflake cannot be understood');
}

function rowsIn(rowset: Json | undefined): (string | null)[][] {
  if (!Array.isArray(rowset)) throw new Unavailable('the answer of Snowflake cannot be understood');
  return rowset.map((row) => {
    if (!Array.isArray(row)) throw new Unavailable('the answer of Snowflake cannot be understood');
    return row.map((value) => (value === null ? null : String(value)));
  });
}

const REASON_LENGTH = 300;

/** The session or its token is over: the next one signs in again. */
const SESSION_OVER = /^3901(?:04|1[0-5])$/;
/** The service, its locks and time limits; statements that were ended; a file that another loader of the batch removed. */
const TRANSIENT = /^(?:091016|0006(?:0[3-58]|10|2[5-9]|3[09])|3(?!90)\d{5})$/;
/** An object or column that is not there, or is there already. */
const CHANGED = /^(?:000904|002003|002002|002043|001430)$/;
/** Objects that loads do not make, or of which only the right is missing. */
const FOR_A_PERSON = /^(?:SQL compilation error:\s*)?(?:Database|Schema|Warehouse|Role) /;
const NO_WAREHOUSE = '000606';

/** The error of a call that Snowflake refused. */
export function failureOfCode(code: string, message: string): Error {
  const text = `${message.slice(0, REASON_LENGTH).replaceAll(/\s+/g, ' ').trim().toWellFormed()} (${code})`;
  if (SESSION_OVER.test(code)) return new Unavailable(`the session has ended (${code})`);
  if (code.startsWith('390')) return new WarehouseRefused(`not authenticated (${code})`);
  if (code === NO_WAREHOUSE) return new WarehouseRefused(text);
  if (TRANSIENT.test(code)) return new Unavailable(`Snowflake answered ${code}`);
  if (CHANGED.test(code) && !FOR_A_PERSON.test(message))
    return new Unavailable(`the tables were changed during the load (${code})`);
  return new StatementRefused(text);
}

/** A token is used at once. */
const VALID_SECONDS = 60;

/** What signs a user in: a token that its private key signed, or its password. `now` is epoch ms. */
export function credentials(settings: SnowflakeSettings, now: number): Readonly<Record<string, string>> {
  const { account, username, private_key, private_key_passphrase, password } = settings;
  const named = { ACCOUNT_NAME: accountName(account), LOGIN_NAME: username };
  if (private_key === undefined) return { ...named, PASSWORD: password ?? '' };
  const key = privateKey(private_key, private_key_passphrase);
  return { ...named, AUTHENTICATOR: 'SNOWFLAKE_JWT', TOKEN: tokenOf(key, account, username, now) };
}

/** The account without the region that its host has. */
function accountName(account: string): string {
  return (account.split('.')[0] ?? account).toUpperCase();
}

function privateKey(pem: string, passphrase: string | undefined): KeyObject {
  try {
    return createPrivateKey({ key: pem, ...(passphrase === undefined ? {} : { passphrase }) });
  } catch {
    // The error may have parts of the key.
    throw new WarehouseRefused(
      'the private key cannot be read: it is no PEM of a key, or its passphrase is another',
    );
  }
}

function tokenOf(key: KeyObject, account: string, username: string, now: number): string {
  const spki = createPublicKey(key).export({ type: 'spki', format: 'der' });
  const subject = `${accountName(account)}.${username.toUpperCase()}`;
  const issued = Math.floor(now / 1_000);
  return signedToken(
    key,
    {},
    {
      iss: `${subject}.SHA256:${hash('sha256', spki, 'base64')}`,
      sub: subject,
      iat: issued,
      exp: issued + VALID_SECONDS,
    },
  );
}
