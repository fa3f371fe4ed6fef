import type { FastifyInstance, FastifySchema } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { documentedAs } from './schemas.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Of a `PUT`: the resource as it is. The route then has a `PATCH` as well, whose body states only what changes: it is
     * merged into the resource by RFC 7396 and handled as a `PUT`, by the same checks.
     */
    readonly patched?: (request: FastifyRequest) => object;
  }
}

type Properties = Readonly<Record<string, unknown>>;

/** Adds a `PATCH` beside each `PUT` that names its resource. */
export const patchPlugin = fastifyPlugin(async (app: FastifyInstance) => {
  app.addHook('onRoute', function (route) {
    const { patched } = route.config ?? {};
    if (route.method !== 'PUT' || patched === undefined) return;
    const body = route.schema?.body as { readonly title?: string; readonly properties: Properties };
    const names = Object.keys(body.properties);
    this.route({
      method: 'PATCH',
      url: route.routePath,
      handler: route.handler,
      config: { ...route.config },
      ...(route.bodyLimit === undefined ? {} : { bodyLimit: route.bodyLimit }),
      schema: patchSchema(route.schema ?? {}, body),
      preValidation: (request, _reply, done) => {
        try {
          const current = patched(request) as Readonly<Record<string, unknown>>;
          const stored = Object.fromEntries(names.map((name) => [name, current[name]]));
          request.body = merged(stored, request.body);
          done();
        } catch (error) {
          done(error as Error); // the resource does not exist
        }
      },
    });
  });
});

/** The schema of the `PUT` validates the merged body; described is a body of which nothing is required. */
function patchSchema(schema: FastifySchema, body: { readonly title?: string }): FastifySchema {
  const { operationId = '', summary = '' } = schema as { operationId?: string; summary?: string };
  const title = `${(body.title ?? operationId).replace(/(Body|Replacement)$/, '')}Patch`;
  return {
    ...schema,
    body: { ...body, ...documentedAs({ title, required: [], examples: [{ name: 'Another name' }] }) },
    ...{
      operationId: operationId.replace('replace', 'patch'),
      summary: summary.replace('Replace', 'Change fields of'),
    },
  };
}

/** RFC 7396: `null` removes a member, objects are merged, all else replaces. A body that is no object is left to the schema. */
export function merged(stored: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const result: Record<string, unknown> = isObject(stored) ? { ...stored } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else defineMember(result, name, merged(Object.hasOwn(result, name) ? result[name] : undefined, value));
  }
  return result;
}

/** Also for `__proto__`, which an assignment would not make a member. */
function defineMember(object: object, name: string, value: unknown): void {
  Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
}
