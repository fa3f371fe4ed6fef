import { isDeepStrictEqual } from 'node:util';
import { isObject } from '@tributary/core';
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifySchema } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { ApiError, invalidRequest } from '../errors/api-error.ts';
import { describeValidation } from '../errors/validation.ts';
import { MERGE_PATCH_TYPE } from '../request-body/request-body.ts';
import { namesVersion } from './catalog-entities.ts';
import { documentedAs } from './documented.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * For a `PUT`: reads the present resource. The route then has a `PATCH` as well, whose body states only what changes: it is
     * merged into the resource by RFC 7396 and handled as a `PUT`, by the same checks.
     */
    readonly patched?: (request: FastifyRequest) => object;
  }
  interface FastifyRequest {
    /** The body of a `PATCH`, which is merged into the resource. */
    change: unknown;
  }
}

/** Characters of a value in an error. */
const MAX_SHOWN = 100;

/** The schema of the body of a `PUT`. */
interface PutBody {
  readonly title?: string;
  readonly examples?: readonly object[];
}

type Properties = Readonly<Record<string, unknown>>;

/** Gateways that change one resource at the same time: how often a change that lost is repeated, at most. */
const REPETITIONS = 20;

/**
 * Adds a `PATCH` beside each `PUT` that names its resource, and accepts read-only fields in the bodies of both as long as they
 * have their present values: what was read can be changed and sent back.
 *
 * Changes of one resource take turns here. One that another gateway was faster than is repeated on the new version, so that
 * without `If-Match` the last change wins; a `PATCH` is merged again, so none is lost.
 */
export const patchPlugin = fastifyPlugin(async (app: FastifyInstance) => {
  const turns = new Map<string, Promise<unknown>>();
  const inTurn = async <T>(key: string, work: () => Promise<T>): Promise<T> => {
    const own = (turns.get(key) ?? Promise.resolve()).then(work, work);
    turns.set(key, own);
    try {
      return await own;
    } finally {
      if (turns.get(key) === own) turns.delete(key);
    }
  };

  app.decorateRequest('change', undefined);
  app.addHook('onRoute', function (route) {
    const { patched } = route.config ?? {};
    if (route.method !== 'PUT' || patched === undefined) return;
    const { handler } = route;
    const body = route.schema?.body as PutBody & { readonly properties: Properties };
    const names = Object.keys(body.properties);
    const change = async (request: FastifyRequest, reply: FastifyReply, begin: () => void) => {
      for (let repetition = 0; ; repetition++) {
        begin();
        try {
          return await handler.call(this, request, reply);
        } catch (error) {
          if (namesVersion(request) || !isLostRace(error) || repetition === REPETITIONS) throw error;
        }
      }
    };
    const pathOf = ({ url }: FastifyRequest) => url.split('?', 1)[0] ?? '';

    route.preValidation = (request, _reply, done) =>
      settle(done, () => {
        request.body = withoutReadOnly(request.body, names, patched(request));
      });
    route.handler = (request, reply) => inTurn(pathOf(request), () => change(request, reply, () => {}));

    const merge = (request: FastifyRequest) => {
      const current: Properties = { ...patched(request) };
      const stored = Object.fromEntries(names.map((name) => [name, current[name]]));
      request.body = merged(stored, request.change);
    };
    this.route({
      method: 'PATCH',
      url: route.routePath,
      config: { ...route.config },
      ...(route.bodyLimit === undefined ? {} : { bodyLimit: route.bodyLimit }),
      schema: patchSchema(route.schema ?? {}, body),
      preValidation: (request, _reply, done) =>
        settle(done, () => {
          request.change = withoutReadOnly(request.body, names, patched(request));
          merge(request);
        }),
      handler: (request, reply) =>
        inTurn(pathOf(request), () =>
          // The handler reads the resource in the same turn of the event loop.
          change(request, reply, () => {
            merge(request);
            const isValid = request.getValidationFunction('body');
            if (isValid?.(request.body) === false)
              throw invalidRequest(...describeValidation(isValid.errors ?? [], 'body'));
          }),
        ),
    });
  });
});

/** An error is that of the resource, which may not exist. */
function settle(done: (error?: Error) => void, work: () => void): void {
  try {
    work();
    done();
  } catch (error) {
    done(error as Error);
  }
}

function isLostRace(error: unknown): boolean {
  return error instanceof ApiError && error.status === 409 && error.fields.reason === 'version';
}

/** 400 for a read-only field that is not as it is now. */
function withoutReadOnly(body: unknown, names: readonly string[], resource: object): unknown {
  if (!isObject(body)) return body;
  const present: Properties = JSON.parse(JSON.stringify(resource));
  const isReadOnly = (name: string) => !names.includes(name) && Object.hasOwn(present, name);
  const changed = Object.keys(body).filter(
    (name) => isReadOnly(name) && !isDeepStrictEqual(body[name], present[name]),
  );
  if (changed.length > 0)
    throw invalidRequest(
      ...changed.map((name) => ({
        path: `/${name}`,
        message: `is read-only, and is ${JSON.stringify(present[name]).slice(0, MAX_SHOWN)}`,
      })),
    );
  return Object.fromEntries(Object.entries(body).filter(([name]) => !isReadOnly(name)));
}

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
