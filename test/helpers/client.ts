import { setTimeout as sleep } from 'node:timers/promises';
import type { WorkspaceRole } from '@tributary/core';

/** An answer of the API. */
export interface Answer<T = Record<string, unknown>> {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: T;
}

interface ApiRequest {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Sends a request to a path of a server. */
export type Transport = (path: string, request: ApiRequest) => Promise<Answer<string>>;

function overHttp(base: string): Transport {
  return async (path, request) => {
    const response = await fetch(`${base}${path}`, request);
    const headers = Object.fromEntries(response.headers);
    return { status: response.status, headers, body: await response.text() };
  };
}

/** Paths that are not below `/api/v1`. */
const OTHER_APIS = /^\/((api|cdp|beacon)\/)?v1\/|^\/(sourceConfig|webhooks\/)/;

/** Calls a Tributary server as a user would, with one credential. */
export class Client {
  readonly #send: Transport;
  readonly token: string | undefined;
  readonly workspaceId: string | undefined;

  /** `server`: its address, or the way to a gateway in this process. */
  constructor(server: string | Transport, token?: string, workspaceId?: string) {
    this.#send = typeof server === 'string' ? overHttp(server) : server;
    this.token = token;
    this.workspaceId = workspaceId;
  }

  /** The same server with another credential or workspace. */
  with(other: { token?: string; workspaceId?: string }): Client {
    return new Client(this.#send, other.token ?? this.token, other.workspaceId ?? this.workspaceId);
  }

  /** The same credential and workspace at another server. */
  at(server: string | Transport): Client {
    return new Client(server, this.token, this.workspaceId);
  }

  /** Calls `path` below `/api/v1`, or below the workspace when it starts with `./`. */
  async call<T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Answer<T>> {
    const full = path.startsWith('./') ? `/workspaces/${this.workspaceId}/${path.slice(2)}` : path;
    const answer = await this.#send(OTHER_APIS.test(full) ? full : `/api/v1${full}`, {
      method,
      headers: {
        ...(this.token === undefined ? {} : { authorization: `Bearer ${this.token}` }),
        ...(this.workspaceId === undefined ? {} : { 'x-workspace-id': this.workspaceId }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { ...answer, body: (answer.body === '' ? undefined : JSON.parse(answer.body)) as T };
  }

  /** The body of a call that must succeed. */
  async ok<T = Record<string, unknown>>(method: string, path: string, body?: unknown): Promise<T> {
    const answer = await this.call<T>(method, path, body);
    if (answer.status >= 300)
      throw new Error(`${method} ${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  }

  get<T = unknown>(path: string): Promise<T> {
    return this.ok<T>('GET', path);
  }

  post<T = unknown>(path: string, body?: unknown): Promise<T> {
    return this.ok<T>('POST', path, body);
  }

  put<T = unknown>(path: string, body: unknown): Promise<T> {
    return this.ok<T>('PUT', path, body);
  }

  /** The pages of a list, each read when it is asked for. */
  async *pages<Item = { readonly id: string }>(list: string): AsyncGenerator<readonly Item[], void> {
    for (let next: string | undefined = list; next !== undefined; ) {
      const page: Answer<readonly Item[]> = await this.call('GET', next);
      if (page.status !== 200) throw new Error(`GET ${next} answered ${page.status}`);
      yield page.body;
      next = /^<(.+)>; rel="next"$/.exec(String(page.headers.link))?.[1];
    }
  }

  async allPages<Item = { readonly id: string }>(list: string): Promise<readonly (readonly Item[])[]> {
    const pages: (readonly Item[])[] = [];
    for await (const page of this.pages<Item>(list)) pages.push(page);
    return pages;
  }

  /** A new write key of this client's workspace, of production unless `fields` name another environment. */
  async writeKey(fields: object = {}): Promise<string> {
    const wanted = { name: 'a site', environment: 'production', ...fields };
    return (await this.ok<{ key: string }>('POST', './event-keys', wanted)).key;
  }

  /** A new destination of this client's workspace, of files unless `fields` say otherwise. */
  destination(fields: object = {}): Promise<{ readonly id: string }> {
    const wanted = { name: 'Files', type: 'ndjson', settings: { folder: 'out' }, ...fields };
    return this.ok('POST', './destinations', wanted);
  }

  /** An API key of this client's workspace as another client. */
  async withApiKey(role: WorkspaceRole, may_manage: readonly string[] = []): Promise<Client> {
    const wanted = { name: `a ${role}`, role, may_manage };
    const { key } = await this.ok<{ key: string }>('POST', './api-keys', wanted);
    return this.with({ token: key });
  }
}

/** Polls until the answer is as wanted; fails with the last one after `timeoutMs`. */
export async function eventually<T>(
  ask: () => Promise<T> | T,
  wanted: (value: T) => boolean,
  timeoutMs = 60_000,
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const value = await ask();
    if (wanted(value)) return value;
    if (Date.now() > deadline)
      throw new Error(`not within ${timeoutMs} ms; last: ${JSON.stringify(value)?.slice(0, 2_000)}`);
    await sleep(25);
  }
}

/** All items of a list. */
export async function listAll<Item>(owner: Client, path: string): Promise<readonly Item[]> {
  return (await owner.allPages<Item>(`${path}?limit=1000`)).flat();
}
