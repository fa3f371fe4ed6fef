import { readFileSync } from 'node:fs';
import type { RouteOptions } from 'fastify';
import { beforeAll, expect, it } from 'vitest';
import { openTestGateway } from '../../helpers/gateway.ts';

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
}

const DOCUMENT = new URL('../../../docs/reference/permissions.md', import.meta.url);

let routes: readonly RouteOptions[];
beforeAll(async () => {
  const gateway = await openTestGateway();
  routes = gateway.routes;
  await gateway.close();
});

/** The fields of an object; those of nested objects have a dot. */
function fieldsOf(schema: Schema | undefined, above = ''): readonly string[] {
  return Object.entries(schema?.properties ?? {}).flatMap(([name, inner]) => [
    `${above}${name}`,
    ...fieldsOf(inner, `${above}${name}.`),
    ...fieldsOf(inner.items, `${above}${name}.`),
  ]);
}

const keyOf = (resource: string, field: string) => `${resource} ${field}`;
const resourceOf = ({ config }: RouteOptions) => String(config?.operation).split('.')[0] ?? '';

/** The writable fields and parameters of calls that change or compute something, by resource. */
const writable = () =>
  routes
    .filter(({ method }) => method !== 'GET')
    .flatMap((route) =>
      [
        ...fieldsOf(route.schema?.body as Schema | undefined),
        ...fieldsOf(route.schema?.querystring as Schema | undefined).map((name) => `?${name}`),
      ].map((field) => keyOf(resourceOf(route), field)),
    );

/** The fields in the lines of the document: `- resource (who sets them): ˋfieldˋ, ˋfieldˋ: what they reach. ˋfieldˋ: …`. */
const [, byHand = ''] = readFileSync(DOCUMENT, 'utf8').split('\n## What a field reaches\n');
const listed = [...byHand.matchAll(/^- (\S+) \(.+?\): (.*)$/gm)].flatMap(([, resource = '', text = '']) =>
  [...text.matchAll(/(?:^|\. )(`[^`]+`(?:, `[^`]+`)*): /g)]
    .flatMap(([, fields = '']) => fields.split(', '))
    .map((field) => keyOf(resource, field.slice(1, -1))),
);

it('every writable field of every route is listed with the access that it gives', () => {
  expect(writable().length).toBeGreaterThan(100);
  expect(writable().filter((field) => !listed.includes(field))).toEqual([]);
});

it('the list has each writable field once, and no other', () => {
  expect(listed.toSorted()).toEqual([...new Set(listed)].toSorted());
  expect(listed.filter((field) => !writable().includes(field))).toEqual([]);
});
