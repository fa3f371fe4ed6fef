import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { type GatewayDependencies, gateway } from '@tributary/gateway';
import { createServer } from '@tributary/gateway/server';
import { openDevIssuer, openGateway, openOidcIssuers, readConfig } from '@tributary/infra';
import type { FastifyInstance, HTTPMethods, RouteOptions } from 'fastify';
import { Client, eventually, type Transport } from './client.ts';

/** The 400 to a request with a fault at this place. */
export const refusedFor = (path: string | undefined) => ({
  status: 400,
  body: { error: 'invalid request', details: [{ path }] },
});

/** The way of a client to a gateway in this process. */
export function inProcess(app: FastifyInstance): Transport {
  return async (url, { method, headers, body }) => {
    const response = await app.inject({
      method: method as HTTPMethods,
      url,
      headers,
      ...(body === undefined ? {} : { payload: body }),
    });
    return { status: response.statusCode, headers: response.headers, body: response.body };
  };
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
  signIn(email: string): Promise<Client>;
  /** A signed-in person in a new workspace of their own. */
  openWorkspace(email?: string): Promise<Client>;
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

  const signIn = async (email: string) => new Client(inProcess(app), await issuer.mint(email));
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
