import { randomUUID } from 'node:crypto';
import { Validator } from '@seriousme/openapi-schema-validator';
import { type CredentialKind, PERMISSIONS, permissionOf } from '@tributary/core';
import { gateway } from '@tributary/gateway';
import { createServer } from '@tributary/gateway/server';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import { suiteGateway } from '../suite-gateway.ts';

interface Documented {
  readonly operationId?: string;
  readonly summary?: string;
  readonly tags?: readonly string[];
  readonly security?: readonly object[];
  readonly parameters?: readonly {
    readonly in: string;
    readonly name: string;
    readonly schema?: { readonly pattern?: string };
  }[];
  readonly requestBody?: {
    readonly required: boolean;
    readonly content: Readonly<Record<string, { readonly example?: unknown }>>;
  };
  readonly responses: Readonly<
    Record<string, { readonly $ref?: string; readonly headers?: object; readonly content?: object }>
  >;
}

interface Description {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Documented>>>>;
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly components: { readonly responses: Readonly<Record<string, unknown>> };
}

interface Body {
  /** JSON pointer to the media type object. */
  readonly at: string;
  readonly example: unknown;
}

/** The bodies below a part of the description: the members of each `content`. */
function bodiesIn(part: unknown, at: string): readonly Body[] {
  if (typeof part !== 'object' || part === null) return [];
  return Object.entries(part).flatMap(([name, value]) => {
    const below = `${at}/${encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'))}`;
    if (name !== 'content') return name === 'schema' ? [] : bodiesIn(value, below);
    return Object.entries(value as Record<string, { readonly example?: unknown }>).map(
      ([type, { example }]) => ({
        at: `${below}/${encodeURIComponent(type.replaceAll('/', '~1'))}`,
        example,
      }),
    );
  });
}

const test = await suiteGateway();
const description = (await test.app.inject({ url: '/openapi.json' })).json<Description>();

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

  it('matches docs/reference/openapi.json', async () => {
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

  it('states of every operation its name, effect, permission and responses', () => {
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

  it('states of every parameter with ids which text it accepts', () => {
    const patterns = operations().flatMap(({ call, operation }) =>
      (operation.parameters ?? []).flatMap(({ name, schema }) =>
        name === 'ids' ? [[call, schema?.pattern]] : [],
      ),
    );
    expect(patterns.length).toBeGreaterThan(15);
    const ids = (count: number) => Array.from({ length: count }, () => randomUUID()).join(',');
    for (const [call, pattern] of patterns) {
      const taken = ['', ids(1), ids(100), ids(101), `${ids(2)},`, 'x'].map((text) =>
        new RegExp(pattern ?? '').test(text),
      );
      expect(taken, call).toEqual([false, true, true, false, false, false]);
    }
  });

  it('has no schema that cannot be compiled, as a route would find out with its first request', async () => {
    const app = createServer({ compilesAtStart: true });
    await app.register(gateway, test.dependencies);
    await app.ready();
    await app.close();
  });

  it('has examples that their schemas accept, and one of each body that a request must have', () => {
    const ajv = new Ajv2020({ strict: false, validateFormats: false });
    ajv.addSchema({ $id: 'api', ...description });
    const bodies = [
      ...bodiesIn(description.paths, '#/paths'),
      ...bodiesIn(description.components, '#/components'),
    ].filter(({ example }) => example !== undefined);
    expect(bodies.length).toBeGreaterThan(60);
    const faults = bodies.flatMap(({ at, example }) => {
      const check = ajv.compile({ $ref: `api${at}/schema` });
      return check(example) ? [] : [`${at}: ${ajv.errorsText(check.errors)} in ${JSON.stringify(example)}`];
    });
    expect(faults).toEqual([]);
    const untold = operations().flatMap(({ call, operation: { requestBody } }) => {
      const hasExample = Object.values(requestBody?.content ?? {}).some(
        ({ example }) => example !== undefined,
      );
      return requestBody?.required === true && !hasExample ? [call] : [];
    });
    expect(untold).toEqual([]);
  });

  it('has its groups in the order in which a reader needs them, each with its purpose', () => {
    const names = description.tags.map(({ name }) => name);
    expect(names.slice(0, 2)).toEqual(['events', 'event-contracts']);
    expect(names.at(-1)).toBe('system');
    expect(description.tags.every(({ description: text }) => text.length > 5)).toBe(true);
    const used = operations().map(({ operation }) => operation.tags?.[0] ?? '');
    expect([...new Set(used)]).toEqual(names);
    expect(Object.keys(description.paths)[0]).toMatch(/events\/track$/);
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

  it('is open to all', async () => {
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
