import type { FastifyInstance, FastifySchema } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { conflict } from '../errors/api-error.ts';
import { MERGE_PATCH_TYPE } from '../request-body/request-body.ts';
import { documentedAs } from './documented.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * For a `PUT`: reads the present resource. The route then has a `PATCH` as well, whose body states only what changes: it is
     * merged into the resource by RFC 7396 and handled as a `PUT`, by the same checks.
     */
    readonly patched?: (request: FastifyRequest) => Patched;
  }
  interface FastifyRequest {
    /** The version that the body of a `PATCH` was merged onto. */
    mergedOnto: number;
  }
}

/** The writable fields of a resource, and its version. */
interface Patched {
  readonly version: number;
}

/** The schema of the body of a `PUT`. */
interface PutBody {
  readonly title?: string;
  readonly examples?: readonly object[];
}

type Properties = Readonly<Record<string, unknown>>;

/**
 * Adds a `PATCH` beside each `PUT` that names its resource. A change of the resource between the merge and the handler is
 * 409 `version`; one after that is found by the expected version of the fact, as for a `PUT`. So no change is lost.
 */
export const patchPlugin = fastifyPlugin(async (app: FastifyInstance) => {
  app.decorateRequest('mergedOnto', 0);
  app.addHook('onRoute', function (route) {
    const { patched } = route.config ?? {};
    if (route.method !== 'PUT' || patched === undefined) return;
    const body = route.schema?.body as PutBody & { readonly properties: Properties };
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
          const resource = patched(request);
          request.mergedOnto = resource.version;
          const current: Readonly<Record<string, unknown>> = { ...resource };
          const stored = Object.fromEntries(names.map((name) => [name, current[name]]));
          request.body = merged(stored, request.body);
          done();
        } catch (error) {
          done(error as Error); // the resource does not exist
        }
      },
      // The last hook: the handler reads the resource in the same turn of the event loop.
      preHandler: (request, _reply, done) => {
        try {
          done(patched(request).version === request.mergedOnto ? undefined : conflict('version'));
        } catch (error) {
          done(error as Error); // the resource was deleted in between
        }
      },
    });
  });
});

/** The schema of the `PUT` validates the merged body; described is a body of which nothing is required. */
function patchSchema(schema: FastifySchema, body: PutBody): FastifySchema {
  const { operationId = '', summary = '' } = schema;
  const title = `${(body.title ?? operationId.replace('replace', '')).replace(/(Body|Replacement)$/, '')}Patch`;
  return {
    ...schema,
    consumes: ['application/json', MERGE_PATCH_TYPE],
    body: { ...body, ...documentedAs({ title, required: [], examples: [oneFieldOf(body)] }) },
    operationId: operationId.replace('replace', 'patch'),
    summary: summary.replace('Replace', 'Change fields of'),
  };
}

/** An example of a change: the first field of the example of a `PUT`. */
function oneFieldOf({ examples }: PutBody): object {
  return Object.fromEntries(Object.entries(examples?.[0] ?? {}).slice(0, 1));
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
