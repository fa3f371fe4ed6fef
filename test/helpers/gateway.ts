import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NO_LOGGER, NO_METRICS, type WorkspaceRole } from '@tributary/core';
import { type GatewayDependencies, gateway } from '@tributary/gateway';
import { createServer } from '@tributary/gateway/server';
import { openDevIssuer, openGateway, openOidcIssuers, readConfig } from '@tributary/infra';
import type { FastifyInstance, RouteOptions } from 'fastify';
import { eventually } from './client.ts';

/** An answer of the API. */
export interface Injected<T = Record<string, unknown>> {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: T;
}

/** The 400 to a request with a fault at this place. */
export const refusedFor = (path: string | undefined) => ({
  status: 400,
  body: { error: 'invalid request', details: [{ path }] },
});

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** Calls a gateway in this process, with one credential. */
export class InjectClient {
  readonly #app: FastifyInstance;
  readonly token: string | undefined;
  readonly workspaceId: string | undefined;

  constructor(app: FastifyInstance, token: string | undefined, workspaceId?: string) {
    this.#app = app;
    this.token = token;
    this.workspaceId = workspaceId;
  }

  with(other: { token?: string; workspaceId?: string }): InjectClient {
    return new InjectClient(this.#app, other.token ?? this.token, other.workspaceId ?? this.workspaceId);
  }

  /** Calls `path` below `/api/v1`, or below the workspace when it starts with `./`. */
  async call<T = Record<string, unknown>>(
    method: Method,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Injected<T>> {
    const full = path.startsWith('./') ? `/workspaces/${this.workspaceId}/${path.slice(2)}` : path;
    const response = await this.#app.inject({
      method,
      url: /^\/((api|cdp|beacon)\/)?v1\/|^\/(sourceConfig|webhooks\/)/.test(full) ? full : `/api/v1${full}`,
      headers: {
        ...(this.token === undefined ? {} : { authorization: `Bearer ${this.token}` }),
        ...(this.workspaceId === undefined ? {} : { 'x-workspace-id': this.workspaceId }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { payload: JSON.stringify(body) }),
    });
    return {
      status: response.statusCode,
      headers: response.headers,
      body: (response.body === '' ? undefined : response.json()) as T,
    };
  }

  /** The body of a call that must succeed. */
  async ok<T = Record<string, unknown>>(method: Method, path: string, body?: unknown): Promise<T> {
    const answer = await this.call<T>(method, path, body);
    if (answer.status >= 300)
      throw new Error(`${method} ${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  }

  /** The pages of a list, each read when it is asked for. */
  async *pages<Item = { readonly id: string }>(list: string): AsyncGenerator<readonly Item[], void> {
    for (let next: string | undefined = list; next !== undefined; ) {
      const page: Injected<readonly Item[]> = await this.call('GET', next);
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
  async withApiKey(role: WorkspaceRole, may_manage: readonly string[] = []): Promise<InjectClient> {
    const wanted = { name: `a ${role}`, role, may_manage };
    const { key } = await this.ok<{ key: string }>('POST', './api-keys', wanted);
    return this.with({ token: key });
  }
}

export interface TestGateway {
  readonly app: FastifyInstance;
  readonly folder: string;
  readonly dependencies: GatewayDependencies;
  /** Every route of the API, without HEAD. */
  readonly routes: readonly RouteOptions[];
  /** The gateway's clock; `pass` moves it. */
  readonly clock: { now(): number; pass(ms: number): void };
  /**
   * Resolves once the keys of each issuer of `TRIBUTARY_ISSUERS` were fetched: on a busy machine that may
   * take several attempts.
   */
  issuersAnswered(): Promise<void>;
  /** A signed-in person. */
  signIn(email: string): Promise<InjectClient>;
  /** A signed-in person in a new workspace of their own. */
  openWorkspace(email?: string): Promise<InjectClient>;
  close(): Promise<void>;
}

export const DEDICATED_TOPIC = 'events.dedicated';

export interface TestGatewayOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** The folder of another gateway, which removes it; default: a new one. */
  readonly folder?: string;
  /** Replaces dependencies that it would open. */
  readonly dependencies?: Partial<GatewayDependencies>;
}

/** A gateway on the embedded adapters. */
export async function openTestGateway(options: TestGatewayOptions = {}): Promise<TestGateway> {
  const folder = options.folder ?? (await mkdtemp(join(tmpdir(), 'tributary-gateway-')));
  const config = readConfig({
    TRIBUTARY_DATA_DIR: folder,
    TRIBUTARY_DEV_ISSUER: '1',
    TRIBUTARY_TOPICS: DEDICATED_TOPIC,
    ...options.env,
  });
  const clock = createClock();
  const tools = { logger: NO_LOGGER, metrics: NO_METRICS };
  const issuer = openDevIssuer(config);
  const oidc = openOidcIssuers(config, { ...tools, now: clock.now });
  const opened = await openGateway(config, [issuer.trusted, ...oidc.trusted], tools);
  await opened.openProfiles();
  const dependencies = {
    ...opened.dependencies,
    isUpgradePending: () => false, // its catalog has no installation
    clock: clock.now,
    ...options.dependencies,
  };
  const routes: RouteOptions[] = [];
  const app = createServer({ trustProxy: config.trustProxy });
  app.addHook('onRoute', (route) => {
    if (route.method !== 'HEAD' && route.config?.operation !== undefined) routes.push(route);
  });
  await app.register(gateway, dependencies);
  await app.ready();

  const signIn = async (email: string) => new InjectClient(app, await issuer.mint(email));
  return {
    app,
    folder,
    dependencies,
    routes,
    clock,
    async issuersAnswered() {
      await eventually(
        () => Object.values(oidc.status()),
        (said) => said.every((one) => one === 'answers'),
        60_000,
      );
    },
    signIn,
    async openWorkspace(email = 'owner@example.com') {
      const client = await signIn(email);
      const { id } = await client.ok<{ id: string }>('POST', '/workspaces', { name: 'Test' });
      return client.with({ workspaceId: id });
    },
    async close() {
      await app.close();
      await opened.close();
      await oidc.close();
      if (options.folder === undefined) await rm(folder, { recursive: true, force: true });
    },
  };
}

function createClock() {
  let passed = 0;
  return {
    now: () => Date.now() + passed,
    pass: (ms: number) => {
      passed += ms;
    },
  };
}
