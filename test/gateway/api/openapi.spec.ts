import { Validator } from '@seriousme/openapi-schema-validator';
import { type CredentialKind, PERMISSIONS, permissionOf } from '@tributary/core';
import { createServer, gateway } from '@tributary/gateway';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openTestGateway, type TestGateway } from '../../helpers/gateway.ts';

interface Documented {
  readonly operationId?: string;
  readonly summary?: string;
  readonly security?: readonly object[];
  readonly parameters?: readonly { readonly in: string; readonly name: string }[];
  readonly responses: Readonly<
    Record<string, { readonly $ref?: string; readonly headers?: object; readonly content?: object }>
  >;
}

interface Description {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Documented>>>>;
  readonly components: { readonly responses: Readonly<Record<string, unknown>> };
}

let test: TestGateway;
let description: Description;

beforeAll(async () => {
  test = await openTestGateway();
  description = (await test.app.inject({ url: '/openapi.json' })).json<Description>();
});

afterAll(() => test.close());

const operations = () =>
  Object.entries(description.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({
      call: `${method.toUpperCase()} ${path}`,
      operation,
    })),
  );

describe('the description of the API', () => {
  it('is valid OpenAPI 3.1', async () => {
    const result = await new Validator().validate({ ...structuredClone(description) });
    expect(result).toEqual({ valid: true });
  });

  it('is what docs/reference/openapi.json says', async () => {
    await expect(`${JSON.stringify(description, null, 1)}\n`).toMatchFileSnapshot(
      '../../../docs/reference/openapi.json',
    );
  });

  it('has every route that is registered, and no other', () => {
    const registered = test.routes
      .filter(({ schema }) => schema?.hide !== true)
      .map(({ method, url }) => `${String(method)} ${url.replaceAll(/:(\w+)/g, '{$1}')}`);
    expect(
      operations()
        .map(({ call }) => call)
        .sort(),
    ).toEqual(registered.sort());
  });

  it('tells of every operation what it is called, what it does, who may, and how it answers', () => {
    const untold = operations().flatMap(({ call, operation }) => {
      const success = Object.entries(operation.responses).filter(([status]) => status.startsWith('2'));
      const refusals = operation.security?.length === 0 ? ['400'] : ['400', '401', '403', '429', '503'];
      const missing = [
        ...(/^[a-z][A-Za-z]+$/.test(operation.operationId ?? '') ? [] : ['operationId']),
        ...((operation.summary ?? '').length > 5 ? [] : ['summary']),
        ...(operation.security === undefined ? ['security'] : []),
        ...(success.length > 0 && success.every(([, { content }]) => content !== undefined)
          ? []
          : ['an answer of success with its schema']),
        ...(refusals.every((status) => status in operation.responses) ? [] : ['refusals']),
      ];
      return missing.length > 0 ? [`${call}: ${missing.join(', ')}`] : [];
    });
    expect(untold).toEqual([]);
  });

  it('has no schema that cannot be compiled, as a route would find out with its first request', async () => {
    const app = createServer({ compilesAtStart: true });
    await app.register(gateway, test.dependencies);
    await app.ready();
    await app.close();
  });

  it('calls no two operations the same', () => {
    const ids = operations().map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('asks for the credentials of the permission table', () => {
    const schemes = {
      id_token: ['idToken'],
      api_key: ['apiKey'],
      write_key: ['writeKey'],
      client_key: ['clientKey'],
    } satisfies Record<CredentialKind, string[]>;
    const ofSdks = { ...schemes, write_key: ['writeKeyAsUser', 'writeKey', 'writeKeyInQuery'] };
    for (const { url, method, config } of test.routes) {
      const operation = config?.operation;
      expect(operation !== undefined && operation in PERMISSIONS).toBe(true);
      if (operation === undefined) continue;
      const told = description.paths[url.replaceAll(/:(\w+)/g, '{$1}')]?.[String(method).toLowerCase()];
      const places = config?.sdk ? ofSdks : schemes;
      const wanted = permissionOf(operation).credentials.flatMap((kind) => places[kind]);
      expect(told?.security, `${String(method)} ${url}`).toEqual(wanted.map((scheme) => ({ [scheme]: [] })));
    }
  });

  it('is for everybody', async () => {
    const answer = await test.app.inject({ url: '/openapi.json' });
    expect(answer.statusCode).toBe(200);
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
  });
});

describe('the page /docs', () => {
  const hosts = /(?:https?:)?\/\/(?!www\.w3\.org\/)[\w.-]+/g;

  it('needs nothing of any other server, and no browser would let it', async () => {
    const page = await test.app.inject({ url: '/docs' });
    expect(page.statusCode).toBe(200);
    expect(page.headers).toMatchObject({ 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' });
    expect(page.headers['content-security-policy']).toMatch(/^default-src 'none'; script-src 'self';/);
    expect(page.headers['content-security-policy']).not.toMatch(/https?:|\*/);
    expect(page.body.match(hosts)).toBeNull();
    const parts = [...page.body.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, url = '']) => url);
    expect(parts.length).toBeGreaterThan(4);
    for (const url of parts) expect((await test.app.inject({ url })).statusCode, url).toBe(200);
  });

  it('shows the description', async () => {
    const shown = await test.app.inject({ url: '/docs/json' });
    expect(shown.json()).toEqual(description);
  });
});
