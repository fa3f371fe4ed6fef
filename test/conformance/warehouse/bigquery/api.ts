import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type Json, type JsonObject, objectIn } from '@tributary/core';
import type pg from 'pg';
import { onLoopback } from '../../../helpers/on-loopback.ts';
import { BackendError, createTable, type Dataset, describeTable, loadRows, runScript } from './backend.ts';

/** A request to the API, as tests see it. */
export interface ApiRequest {
  readonly method: string;
  /** Below the project, without the query. */
  readonly path: string;
  readonly body: JsonObject;
  /** The script of a job. */
  readonly sql: string;
}

/** What a test makes of a request: another answer, an answer that is lost after the work, or a connection that ends before it. */
export type Meddling =
  | { readonly status: number; readonly body: JsonObject; readonly loses?: undefined }
  /** With a status the answer is that error. */
  | { readonly loses: 'answer' | 'request'; readonly status?: number };

/** An error as an answer. */
export function refusal(status: number, reason: string, message = reason) {
  return { status, body: { error: { code: status, message, errors: [{ reason, message }] } } };
}

interface Job {
  readonly reference: JsonObject;
  readonly work: Promise<JsonObject>;
  rows: readonly (readonly (string | null)[])[];
}

/** The REST API of BigQuery as loading uses it. */
export interface BigqueryApi {
  readonly port: number;
  /** Is called with each script before it is run. */
  record: ((sql: string) => Promise<void>) | undefined;
  /** The resources that tables were made from. */
  readonly resources: ReadonlyMap<string, JsonObject>;
  /** Is called with each request; what it returns is done instead of the answer. */
  meddle: ((request: ApiRequest) => Meddling | undefined) | undefined;
  /** Rows that the next load jobs lose without a word. */
  rowsLost: number;
  /** A statement that begins so is not run, and its job ends there. */
  endBefore: string | undefined;
  /** What is taken as a token, and issued; undefined: none is issued. */
  token: string | undefined;
  /** Properties of the dataset. */
  dataset: JsonObject;
  close(): Promise<void>;
}

/** Bytes of a request, far above those of a test. */
const MOST = 64 * 1_024 * 1_024;
/** An answer to the begin of a job waits so long for its end, ms: most jobs of tests are faster. */
const SYNC_MS = 300;

/** Serves the API over a schema of PostgreSQL; see `backend.ts` for what it makes of the statements. */
export async function startBigqueryApi(pool: pg.Pool, dataset: Dataset): Promise<BigqueryApi> {
  const jobs = new Map<string, Job>();
  const uploads = new Map<string, JsonObject>();
  const resources = new Map<string, JsonObject>();
  const underWay = new Set<Promise<unknown>>();

  function begin(resource: JsonObject, lines: string): Job {
    const reference = objectIn(resource.jobReference);
    const id = String(reference.jobId);
    if (jobs.has(id)) throw new BackendError('duplicate', `Already Exists: Job ${id}`, 409);
    const { query, load } = objectIn(resource.configuration);
    const run = async (): Promise<JsonObject> => {
      try {
        if (load !== undefined) {
          const rows = await loadRows(pool, dataset, objectIn(load), lines, api.rowsLost);
          return { status: { state: 'DONE' }, statistics: { load: { outputRows: String(rows) } } };
        }
        job.rows = await runScript(pool, dataset, objectIn(query), api.endBefore);
        return { status: { state: 'DONE' }, statistics: {} };
      } catch (error) {
        if (!(error instanceof BackendError)) throw error;
        const { reason, message } = error;
        return { status: { state: 'DONE', errorResult: { reason, message } }, statistics: {} };
      }
    };
    const job: Job = { reference, rows: [], work: Promise.resolve().then(run) };
    underWay.add(job.work);
    const end = () => underWay.delete(job.work);
    job.work.then(end, end);
    jobs.set(id, job);
    return job;
  }

  async function jobResource(job: Job, waitMs: number): Promise<JsonObject> {
    const { promise, resolve } = Promise.withResolvers<JsonObject>();
    const timer = setTimeout(() => resolve({ status: { state: 'RUNNING' } }), waitMs);
    const state = await Promise.race([job.work, promise]);
    clearTimeout(timer);
    return { jobReference: job.reference, ...state };
  }

  function known(id: string): Job {
    const job = jobs.get(id);
    if (job === undefined) throw new BackendError('notFound', `Not found: Job ${id}`, 404);
    return job;
  }

  async function answer({ method, path, body, sql }: ApiRequest, lines: string): Promise<Json> {
    const [kind = '', name = '', below = '', table = ''] = path.split('/');
    if (kind === 'upload') {
      if (method === 'POST') {
        const session = String(uploads.size);
        uploads.set(session, body);
        return { location: `/upload/bigquery/v2/projects/p/session/${session}` };
      }
      return jobResource(begin(uploads.get(below) ?? {}, lines), SYNC_MS);
    }
    if (kind === 'jobs') {
      if (method === 'GET') return jobResource(known(name), 0);
      await api.record?.(sql);
      return jobResource(begin(body, ''), SYNC_MS);
    }
    if (kind === 'queries') {
      const job = known(name);
      await job.work;
      return { jobComplete: true, rows: job.rows.map((row) => ({ f: row.map((v) => ({ v })) })) };
    }
    if (below === '') return dataset.serve(pool, method, api.dataset);
    if (method === 'GET' && table === '') {
      const names = await dataset.tables(pool);
      return { tables: names.map((tableId) => ({ type: 'TABLE', tableReference: { tableId } })) };
    }
    if (method === 'GET') return describeTable(pool, dataset, table);
    if (method === 'DELETE') return dataset.drop(pool, table);
    resources.set(String(objectIn(body.tableReference).tableId), body);
    return createTable(pool, dataset, body);
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = await bodyOf(request);
    const { pathname } = new URL(request.url ?? '/', 'http://localhost');
    const send = (status: number, body: Json, headers: Readonly<Record<string, string>> = {}) => {
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(JSON.stringify(body));
    };
    if (pathname === '/token' && api.token === undefined) return send(400, { error: 'invalid_grant' });
    if (pathname === '/token') return send(200, { access_token: api.token ?? '', expires_in: 3_600 });
    const path = pathname.replace(/^\/(upload\/)?bigquery\/v2\/projects\/[^/]+\//, '$1');
    const isLines = path.startsWith('upload/session');
    const body = isLines || text === '' ? {} : objectIn(JSON.parse(text));
    const sql = String(objectIn(objectIn(body.configuration).query).query ?? '');
    const seen: ApiRequest = { method: request.method ?? '', path, body, sql };
    const meddling = api.meddle?.(seen);
    if (meddling !== undefined && meddling.loses === undefined) return send(meddling.status, meddling.body);
    if (meddling?.loses === 'request') return void request.socket.destroy();
    try {
      if (request.headers.authorization !== `Bearer ${api.token}`)
        throw new BackendError('authError', 'no token', 401);
      const answered = await answer(seen, isLines ? text : '');
      if (meddling?.status !== undefined) return send(meddling.status, {});
      if (meddling?.loses === 'answer') return void request.socket.destroy();
      const { location } = objectIn(answered);
      const isSession = typeof location === 'string' && location.startsWith('/upload');
      send(200, answered, isSession ? { location } : {});
    } catch (error) {
      if (meddling?.loses === 'answer') return void request.socket.destroy();
      const { status, reason, message } =
        error instanceof BackendError ? error : new BackendError('internalError', String(error), 500);
      send(status, { error: { code: status, message, errors: [{ reason, message }] } });
    }
  }

  const server = createServer((request, response) => {
    // Requests that were cut off are no requests.
    serve(request, response).catch(() => request.socket.destroy());
  });
  const { url, close } = await onLoopback(server);
  const api: BigqueryApi = {
    port: Number(new URL(url).port),
    record: undefined,
    resources,
    meddle: undefined,
    rowsLost: 0,
    endBefore: undefined,
    token: 'a-token',
    dataset: {},
    async close() {
      await close();
      while (underWay.size > 0) await Promise.allSettled(underWay);
    },
  };
  return api;
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += (chunk as Buffer).length;
    if (bytes > MOST) throw new Error('too much was sent');
    chunks.push(chunk as Buffer);
  }
  if (!request.complete) throw new Error('the request broke off');
  return Buffer.concat(chunks).toString();
}
