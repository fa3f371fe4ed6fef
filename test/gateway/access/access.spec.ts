import { randomBytes, randomUUID } from 'node:crypto';
import { makeKey, type Operation, PERMISSIONS, permissionOf, Unavailable } from '@tributary/core';
import type { RouteOptions } from 'fastify';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { Client } from '../../helpers/client.ts';
import { inProcess } from '../../helpers/gateway.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
let owner: Client;
let writeKey: Client;
beforeAll(async () => {
  owner = await test.openWorkspace();
  writeKey = owner.with({ token: await owner.writeKey() });
});

const operationOf = ({ config }: RouteOptions) => config?.operation as Operation;

/** Calls a route with nonexistent ids, and no body. */
function call(client: Client, { method, url }: RouteOptions, headers: Record<string, string> = {}) {
  const path = url
    .replace(':workspaceId', String(owner.workspaceId))
    .replaceAll(/:[a-zA-Z]+/g, () => randomUUID());
  return client.call(method as 'GET', path, undefined, headers);
}

/** Passes the period in which failed authentication counts against an address. */
const forget = () => test.clock.pass(60_000);

describe('every route', () => {
  it('is 400 without the workspace header, 403 with that of another workspace', async () => {
    const silent = new Client(inProcess(test.app), owner.token);
    const named = (id: string) => ({ 'x-workspace-id': id });
    const scoped = test.routes.filter(
      (route) =>
        route.url.includes(':workspaceId') &&
        permissionOf(operationOf(route)).credentials.includes('api_key'),
    );
    for (const route of scoped) {
      const answers = [
        call(silent, route),
        ...['no-id', '', randomUUID()].map((id) => call(owner, route, named(id))),
      ];
      const statuses = (await Promise.all(answers)).map(({ status }) => status);
      expect(statuses, `${String(route.method)} ${route.url}`).toEqual([400, 400, 400, 403]);
    }
  });

  it('names an operation of the permission table, and every operation has a route', () => {
    const operations = new Set(test.routes.map(operationOf));
    expect([...operations].toSorted()).toEqual(Object.keys(PERMISSIONS).toSorted());
  });
});

it('every error response has the id of the request, and no message of a library', async () => {
  const missing = await owner.call('GET', '/nowhere');
  expect(missing).toMatchObject({ status: 404, body: { error: 'not found' } });
  expect(missing.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
  const text = await owner.call('POST', './event-contracts', undefined, { 'content-type': 'text/plain' });
  expect(text).toMatchObject({ status: 415, body: { error: 'unsupported media type' } });
});

it('an empty body is accepted with any content type on DELETE and on a POST without a body', async () => {
  const { id } = await owner.ok<{ id: string }>('POST', './api-keys', { name: 'x' });
  const json = { 'content-type': 'application/json', 'content-length': '0' };
  expect((await owner.call('DELETE', `./api-keys/${id}`, undefined, json)).status).toBe(200);
  expect((await owner.call('POST', './deliveries/redrive', undefined, json)).status).toBe(202);
  expect((await owner.call('POST', './deliveries/redrive')).status).toBe(202);
  expect((await owner.call('POST', './event-contracts', undefined, json)).status).toBe(400);
});

it('an engine that does not answer causes 503 with Retry-After', async () => {
  const read = vi.spyOn(test.dependencies.counters, 'volume').mockRejectedValue(new Unavailable('down'));
  const answer = await owner.call('GET', './event-volume');
  read.mockRestore();
  expect(answer).toMatchObject({ status: 503, body: { error: 'unavailable' } });
  expect(answer.headers['retry-after']).toBe('1');
});

describe('failed authentication', () => {
  beforeEach(forget);
  afterEach(() => vi.restoreAllMocks());

  const unknownKey = () => makeKey('write_key', randomBytes(32)).raw;
  const asking = (token: string) => owner.with({ token }).call('GET', '/workspaces');
  const fail = async (times: number) => {
    for (let time = 0; time < times; time++) expect((await asking('nonsense')).status).toBe(401);
  };

  it('is throttled from 100 a minute for each address', async () => {
    await fail(100);
    for (const token of ['nonsense', 'trb_wk_prod_nonsense', unknownKey()]) {
      const answer = await asking(token);
      expect(answer).toMatchObject({ status: 429, body: { error: 'too many requests' } });
      expect(Number(answer.headers['retry-after'])).toBeGreaterThan(50);
      expect(Number(answer.headers['retry-after'])).toBeLessThanOrEqual(60);
    }
    const elsewhere = await test.app.inject({ url: '/api/v1/workspaces', remoteAddress: '192.0.2.1' });
    expect(elsewhere.statusCode).toBe(401);
    forget();
    expect((await asking('nonsense')).status).toBe(401);
  });

  it('does not throttle valid keys and ID tokens of the same address', async () => {
    await fail(100);
    const server = await owner.withApiKey('viewer');
    expect((await server.call('GET', './event-contracts')).status).toBe(200);
    expect((await owner.call('GET', './event-contracts')).status).toBe(200);
    expect((await writeKey.call('POST', './events/track', { event: 'E', user_id: 'u' })).status).toBe(202);
  });

  it('answered a revoked key with 429 after a hundred calls, which SDKs retry: it is 401 however often', async () => {
    const { id, key } = await owner.ok<{ id: string; key: string }>('POST', './event-keys', {
      name: 'x',
      environment: 'production',
    });
    await owner.ok('DELETE', `./event-keys/${id}`);
    const track = () =>
      owner.with({ token: key }).call('POST', './events/track', { event: 'E', user_id: 'u' });
    for (let time = 0; time < 120; time++) expect((await track()).status).toBe(401);
    await fail(100);
    expect((await asking('nonsense')).status).toBe(429);
    expect((await track()).status).toBe(401);
  });

  it('with invented keys causes a bounded number of catalog reads', async () => {
    const catchUp = vi.spyOn(test.dependencies.catalog, 'catchUp');
    const many = await Promise.all(Array.from({ length: 60 }, () => asking(unknownKey())));
    expect(new Set(many.map(({ status }) => status))).toEqual(new Set([401]));
    expect(catchUp.mock.calls.length).toBeLessThan(10);
    await fail(40);
    catchUp.mockClear();
    expect((await asking(unknownKey())).status).toBe(429);
    expect(catchUp).not.toHaveBeenCalled();
  });
});
