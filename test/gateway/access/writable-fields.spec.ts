import type { RouteOptions } from 'fastify';
import { beforeAll, expect, it } from 'vitest';
import { openTestGateway } from '../../helpers/gateway.ts';
import { WRITABLE_FIELDS } from './writable-fields.ts';

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
}

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

it('every writable field of every route is listed with the access that it gives', () => {
  const walked = new Set(
    WRITABLE_FIELDS.flatMap(({ resource, fields }) => fields.map((field) => keyOf(resource, field))),
  );
  expect(writable().length).toBeGreaterThan(100);
  expect(writable().filter((field) => !walked.has(field))).toEqual([]);
});

it('the list has each writable field once, and no other', () => {
  const walked = WRITABLE_FIELDS.flatMap(({ resource, fields }) =>
    fields.map((field) => keyOf(resource, field)),
  );
  expect(walked.toSorted()).toEqual([...new Set(walked)].toSorted());
  expect(walked.filter((field) => !writable().includes(field))).toEqual([]);
});
