import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Clock,
  isObject,
  type Json,
  type JsonObject,
  objectIn,
  Unavailable,
  WarehouseRefused,
} from '@tributary/core';
import { Deadlines } from '../../client/deadlines.ts';
import { NOT_VALID } from '../../failures.ts';
import type { HttpRequest } from '../../http/client.ts';
import type { ConnectorContext } from '../../kind.ts';
import { HttpApi, signedToken } from '../http.ts';
import { jsonIn } from '../tables.ts';
import { type BigquerySettings, type ServiceAccount, serviceAccountIn } from './settings.ts';

/*
 * The few calls of BigQuery's REST API that loading needs. The vendor's client brings an HTTP stack of its
 * own, which does not go through the egress guard.
 */

const GOOGLE = 'https://bigquery.googleapis.com';
const SCOPE = 'https://www.googleapis.com/auth/bigquery';
/** Lifetime of a token, and how long before its end a new one is fetched, s. */
const TOKEN_S = { life: 3_600, margin: 300 };

/** Bytes of one response: a table of 5,000 columns is described in less than one MB. */
const MAX_RESPONSE_BYTES = 8 * 1_024 * 1_024;
/** An upload takes as long as at this rate, bytes a second, on top of the time of a call. */
const SLOWEST_UPLOAD = 256 * 1_024;

/** Requests for one job, whose id makes that it runs once. */
const SUBMITS = 3;
/** Failed looks at a job in a row. */
const LOOKS = 5;
/** Between two looks at a job: the first time, and at most, ms. */
const POLL_MS = { first: 50, most: 2_000 };
/** A job that takes longer is left alone; the ledger tells what became of it, ms. */
const JOB_MS = 30 * 60_000;

/** Reasons of errors that end by themselves. */
const TRANSIENT = new Set([
  'backendError',
  'internalError',
  'jobBackendError',
  'jobInternalError',
  'jobRateLimitExceeded',
  'quotaExceeded',
  'rateLimitExceeded',
  'resourceInUse',
  'stopped',
  'tableUnavailable',
  'timeout',
  'userRateLimitExceeded',
]);

const REASON_LENGTH = 300;

/** What BigQuery refused. The message is its own, about tables and columns. */
export class BigqueryRefusal extends Error {
  readonly reason: string;
  /** HTTP; of a job 200. */
  readonly status: number;

  constructor({ reason, message }: JsonObject, status: number) {
    super(
      `${String(message ?? '')
        .slice(0, REASON_LENGTH)
        .toWellFormed()} (${reason ?? status})`,
    );
    this.reason = String(reason);
    this.status = status;
  }
}

/** A cell of a result: BigQuery writes all types as texts. */
export type Cell = string | null;

export class BigqueryClient {
  readonly project: string;
  /** Where jobs run; that of the dataset once it is known. */
  location: string;
  readonly #http: HttpApi;
  readonly #account: ServiceAccount;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #endpoint: string;
  #token: { readonly value: string; readonly until: number } | undefined;

  constructor(context: ConnectorContext, settings: BigquerySettings) {
    const { timeoutMs, clock } = context;
    const { project, location, endpoint = GOOGLE, service_account_key } = settings;
    const account = serviceAccountIn(service_account_key);
    if (account === undefined) throw new WarehouseRefused(NOT_VALID);
    this.project = project;
    this.location = location;
    this.#endpoint = endpoint.replace(/\/$/, '');
    this.#account = account;
    this.#timeoutMs = timeoutMs;
    this.#clock = clock;
    this.#http = new HttpApi(context, { maxResponseBytes: MAX_RESPONSE_BYTES, timeoutMs });
  }

  /** A call below the project. Undefined where there is no such thing (404). */
  async get(path: string, signal: AbortSignal): Promise<JsonObject | undefined> {
    try {
      return await this.#api('GET', path, undefined, signal);
    } catch (error) {
      if (error instanceof BigqueryRefusal && error.status === 404) return undefined;
      throw error;
    }
  }

  /** Makes something; false where it is there already. */
  async create(path: string, resource: JsonObject, signal: AbortSignal): Promise<boolean> {
    try {
      await this.#api('POST', path, resource, signal);
      return true;
    } catch (error) {
      if (isDuplicate(error)) return false;
      throw error;
    }
  }

  async delete(path: string, signal: AbortSignal): Promise<void> {
    await this.#api('DELETE', path, undefined, signal);
  }

  /** Runs statements as one job, and resolves with the rows of the last one. */
  async query(
    jobId: string,
    sql: string,
    parameters: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<readonly (readonly Cell[])[]> {
    const job = this.#job(jobId, {
      query: {
        query: sql,
        useLegacySql: false,
        parameterMode: 'NAMED',
        queryParameters: Object.entries(parameters).map(([name, value]) => ({
          name,
          parameterType: { type: 'STRING' },
          parameterValue: { value },
        })),
      },
    });
    await this.#run(jobId, () => this.#api('POST', 'jobs', job, signal), signal);
    const path = `queries/${jobId}?location=${encodeURIComponent(this.location)}`;
    const { jobComplete, rows = [] } = await this.#api('GET', path, undefined, signal);
    if (jobComplete !== true || !Array.isArray(rows))
      throw new Unavailable('BigQuery gave no result of a job');
    return rows.map((row) => cellsOf(row));
  }

  /** Loads lines of JSON into a table that is empty, as one job; resolves with the number of its rows. */
  async load(jobId: string, table: string, lines: Uint8Array, signal: AbortSignal): Promise<number> {
    const [datasetId = '', tableId = ''] = table.split('.');
    const job = this.#job(jobId, {
      load: {
        destinationTable: { projectId: this.project, datasetId, tableId },
        sourceFormat: 'NEWLINE_DELIMITED_JSON',
        createDisposition: 'CREATE_NEVER',
        writeDisposition: 'WRITE_EMPTY',
        maxBadRecords: 0,
      },
    });
    const done = await this.#run(jobId, () => this.#upload(job, lines, signal), signal);
    const { outputRows } = objectIn(objectIn(done.statistics).load);
    return Number(outputRows ?? Number.NaN);
  }

  /** Whether a job is known and has not ended. */
  async isRunning(jobId: string, signal: AbortSignal): Promise<boolean> {
    const job = await this.get(this.#jobPath(jobId), signal);
    return job !== undefined && stateOf(job) !== 'DONE';
  }

  close(): Promise<void> {
    return this.#http.close();
  }

  #job(jobId: string, configuration: JsonObject): JsonObject {
    return {
      jobReference: { projectId: this.project, jobId, location: this.location },
      configuration: { ...configuration, labels: { application: 'tributary' } },
    };
  }

  #jobPath(jobId: string): string {
    return `jobs/${jobId}?location=${encodeURIComponent(this.location)}`;
  }

  /**
   * Begins a job and waits for its end. A request without an answer is sent again: BigQuery refuses a second job with the id of
   * the first one, which then is the one to wait for.
   */
  async #run(jobId: string, submit: () => Promise<JsonObject>, signal: AbortSignal): Promise<JsonObject> {
    let job = await this.#submitted(submit, signal);
    let failures = 0;
    const until = performance.now() + JOB_MS;
    for (let ms = POLL_MS.first; stateOf(job) !== 'DONE'; ms = Math.min(ms * 1.5, POLL_MS.most)) {
      if (performance.now() > until) throw new Unavailable('a job of BigQuery takes too long');
      await pause(ms, signal);
      try {
        job = await this.#api('GET', this.#jobPath(jobId), undefined, signal);
        failures = 0;
      } catch (error) {
        failures += 1;
        if (!(error instanceof Unavailable) || failures === LOOKS || signal.aborted) throw error;
      }
    }
    const { errorResult } = objectIn(job?.status);
    if (isObject(errorResult)) throw failureOf(errorResult, 200);
    return job ?? {};
  }

  /** Undefined where the job is there, as an earlier request has arrived. */
  async #submitted(submit: () => Promise<JsonObject>, signal: AbortSignal): Promise<JsonObject | undefined> {
    for (let n = 1; ; n++) {
      try {
        return await submit();
      } catch (error) {
        if (isDuplicate(error)) return undefined;
        if (!(error instanceof Unavailable) || n === SUBMITS || signal.aborted) throw error;
        await pause(n * POLL_MS.first, signal);
      }
    }
  }

  async #upload(job: JsonObject, lines: Uint8Array, signal: AbortSignal): Promise<JsonObject> {
    const url = `${this.#endpoint}/upload/bigquery/v2/projects/${this.project}/jobs?uploadType=resumable`;
    const begun = await this.#authorized('POST', url, JSON.stringify(job), signal, [
      'x-upload-content-type',
      'application/octet-stream',
      'x-upload-content-length',
      String(lines.length),
    ]);
    const session = URL.parse(begun.location ?? '', url);
    if (session === null || session.origin !== new URL(url).origin)
      throw new Unavailable('BigQuery named no place for an upload');
    const ms = this.#timeoutMs + (lines.length / SLOWEST_UPLOAD) * 1_000;
    const range = ['content-range', `bytes 0-${lines.length - 1}/${lines.length}`];
    return (await this.#authorized('PUT', session.href, lines, signal, range, new Deadlines(ms))).body;
  }

  async #api(
    method: HttpRequest['method'],
    path: string,
    resource: JsonObject | undefined,
    signal: AbortSignal,
  ): Promise<JsonObject> {
    const url = `${this.#endpoint}/bigquery/v2/projects/${this.project}/${path}`;
    const body = resource === undefined ? undefined : JSON.stringify(resource);
    return (await this.#authorized(method, url, body, signal)).body;
  }

  async #authorized(
    method: HttpRequest['method'],
    url: string,
    body: string | Uint8Array | undefined,
    signal: AbortSignal,
    headers: readonly string[] = [],
    deadlines?: Deadlines,
  ) {
    const authorization = `Bearer ${await this.#accessToken(signal)}`;
    const type = typeof body === 'string' ? 'application/json' : 'application/octet-stream';
    const all = [
      'authorization',
      authorization,
      ...(body === undefined ? [] : ['content-type', type]),
      ...headers,
    ];
    const { status, ...answer } = await this.#send(
      { method, url: new URL(url), headers: all, ...(body === undefined ? {} : { body }) },
      signal,
      deadlines,
    );
    if (status < 300) return answer;
    if (status < 400) throw new Unavailable(`BigQuery took a request in part (${status})`);
    if (status === 401) this.#token = undefined;
    const { errors, message } = objectIn(answer.body.error);
    const [first] = Array.isArray(errors) ? errors : [];
    throw failureOf({ message: message ?? '', ...objectIn(first) }, status);
  }

  /** One request; the body of the response is parsed where it is JSON. */
  async #send(request: HttpRequest, signal: AbortSignal, deadlines?: Deadlines) {
    const { status, location, start, whole } = await this.#http.send(request, signal, deadlines);
    // Whether a refusal is for good is in its body as well.
    if (!whole) throw new Unavailable(`the answer of BigQuery is not whole (${status})`);
    return { status, location, body: objectIn(jsonIn(Buffer.from(start).toString())) };
  }

  /** The access token of the account, for which its key signs. */
  async #accessToken(signal: AbortSignal): Promise<string> {
    const now = Math.floor(this.#clock() / 1_000);
    if (this.#token !== undefined && now < this.#token.until) return this.#token.value;
    const { email, keyId, key, tokenUrl } = this.#account;
    const claims = { iss: email, scope: SCOPE, aud: tokenUrl.href, iat: now, exp: now + TOKEN_S.life };
    const body = new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion: signedToken(key, { kid: keyId }, claims),
    }).toString();
    const headers = ['content-type', 'application/x-www-form-urlencoded'];
    const answer = await this.#send({ method: 'POST', url: tokenUrl, headers, body }, signal);
    if (answer.status >= 500 || answer.status === 429)
      throw new Unavailable(`no access token is issued (${answer.status})`);
    const { access_token, expires_in, error } = answer.body;
    if (answer.status !== 200 || typeof access_token !== 'string')
      throw new WarehouseRefused(
        `the service account key is not accepted (${String(error ?? answer.status)})`,
      );
    const life = typeof expires_in === 'number' ? expires_in : TOKEN_S.life;
    this.#token = { value: access_token, until: now + life - TOKEN_S.margin };
    return access_token;
  }
}

function isDuplicate(error: unknown): boolean {
  return error instanceof BigqueryRefusal && error.status === 409;
}

function stateOf(job: JsonObject | undefined): Json | undefined {
  return objectIn(job?.status).state;
}

/** The error of an answer or a job. */
function failureOf(error: JsonObject, status: number): Error {
  const refusal = new BigqueryRefusal(error, status);
  const { reason, message } = refusal;
  if (TRANSIENT.has(reason) || status >= 500 || status === 429) return new Unavailable(message);
  return status === 401 ? new WarehouseRefused(`the access token is not accepted: ${message}`) : refusal;
}

function cellsOf(row: Json): readonly Cell[] {
  const { f } = objectIn(row);
  if (!Array.isArray(f)) throw new Unavailable('BigQuery gave no rows of a result');
  return f.map((cell: Json) => {
    const { v } = objectIn(cell);
    return typeof v === 'string' ? v : null;
  });
}

export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch (error) {
    throw new Unavailable('stopped', { cause: error });
  }
}
