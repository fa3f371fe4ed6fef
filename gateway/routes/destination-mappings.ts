import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  type ConnectorDestination,
  type Destination,
  type FieldChoices,
  type FieldQuery,
  isObject,
  type Json,
  type JsonObject,
  objectIn,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { GatewayDependencies } from '../dependencies.ts';
import { ApiError, conflict, invalidRequest } from '../errors/api-error.ts';
import { disconnectSignal } from '../limits/turns.ts';
import { checkVersion, entityOf, propose } from '../resources/catalog-entities.ts';
import {
  boolean,
  closed,
  freeObject,
  listOf,
  MAX_RESOURCE_BYTES,
  nullable,
  operation,
  optional,
  string,
} from '../resources/schemas.ts';
import { opened, type TrialTurns, unsavedIn } from './connection-test.ts';
import { createSettingsChecker } from './destination-settings.ts';
import { typeOf } from './destination-types.ts';

const queryFields = {
  action: Type.String({ minLength: 1, maxLength: 200, description: 'An action of the type.' }),
  field: Type.String({
    minLength: 1,
    maxLength: 500,
    description:
      'A field that is `dynamic`: `field`, `object.member` or `list.[0].member`; `object.__keys__` for the names of its members.',
  }),
  payload: optional(freeObject('The values of the other fields, on which the choices may depend.')),
  page: optional(Type.String({ maxLength: 4_000, description: '`next_page` of the page before.' })),
  query: optional(
    Type.String({ maxLength: 500, description: 'A text to search for, where the vendor does.' }),
  ),
  hook: optional(Type.String({ maxLength: 200, description: 'The hook of which the field is an input.' })),
  inputs: optional(freeObject('The other inputs of the hook.')),
};

const example = { action: 'addToList', field: 'list_id' };

const fieldBody = closed(queryFields, { title: 'DynamicFieldBody', examples: [example] });

const typeFieldBody = closed(
  { ...queryFields, settings: freeObject('Those of a destination, with their secrets.') },
  { title: 'TypeDynamicFieldBody', examples: [{ ...example, settings: { api_key: 'key' } }] },
);

const vendorError = Type.Object({
  message: Type.String(),
  code: string('That of the vendor, often its status; `not_sent`, or `unanswered`: try again.'),
});

const fieldChoices = Type.Object(
  {
    choices: listOf(
      Type.Object({
        value: Type.Unsafe<Json>({ description: 'For the mapping: a text, a number or a flag.' }),
        label: Type.String(),
        description: Type.Optional(Type.String()),
      }),
      'At most 1,000.',
    ),
    next_page: Type.Optional(string('`page` of the next call; absent after the last.')),
    error: Type.Optional(vendorError),
  },
  { title: 'FieldChoices' },
);

const hookBody = closed(
  {
    subscription: Type.Integer({
      minimum: 0,
      maximum: 99,
      description: 'Its place in `subscriptions` of the settings.',
    }),
    hook: Type.String({ minLength: 1, maxLength: 200, examples: ['onMappingSave'] }),
    inputs: freeObject('By the fields of the hook.'),
    again: optional(
      boolean('Runs it although how the run before ended is unknown, so that it may create a second time.'),
    ),
  },
  {
    title: 'HookBody',
    examples: [{ subscription: 0, hook: 'retlOnMappingSave', inputs: { list_name: 'Customers' } }],
  },
);

const hookResult = Type.Object(
  {
    outputs: nullable(freeObject('As they are in the mapping now.')),
    message: nullable(string('Of the vendor.')),
    error: Type.Union([vendorError, Type.Null()]),
  },
  { title: 'HookResult' },
);

/** Choices are kept this long, ms, and so many of them, of so many characters each. */
const KEPT_MS = 60_000;
const MAX_KEPT = 200;
const MAX_KEPT_CHARACTERS = 64 * 1_024;

/** Room in a mapping for the outputs of a hook, characters: what a connector returns at most, with their names. */
const OUTPUTS_ROOM = 'x'.repeat(4_200);

/** The connector bounds the time. A person who closes the page does not stop what the vendor has begun. */
const UNHURRIED = { signal: new AbortController().signal };

/** How often the outputs of a hook are written again that another change came before. */
const REPETITIONS = 5;

interface Options {
  readonly dependencies: GatewayDependencies;
  readonly turns: TrialTurns;
}

/** What an editor of mappings asks the vendor of a destination: choices of fields, and hooks of actions. */
export const mappingRoutes: FastifyPluginAsyncTypebox<Options> = async (app, { dependencies, turns }) => {
  const { connectors, clock } = dependencies;
  const faultsOf = createSettingsChecker();
  /** The oldest first. */
  const kept = new Map<string, { readonly until: number; readonly choices: FieldChoices }>();

  app.post(
    '/workspaces/:workspaceId/destinations/:destinationId/dynamic-field',
    operation(
      'destinations.dynamic-field',
      'searchFieldChoices',
      'Ask the vendor for the choices of a field',
      { body: fieldBody, response: { 200: fieldChoices } },
      { bodyLimit: MAX_RESOURCE_BYTES },
    ),
    async (request, reply) => {
      const destination = entityOf(request, dependencies, 'destination');
      const target = opened(dependencies, destination);
      return choicesFor(destination.type, target, queryIn(request.body), disconnectSignal(reply));
    },
  );

  app.post(
    '/workspaces/:workspaceId/destination-types/:type/dynamic-field',
    operation(
      'destination-types.dynamic-field',
      'searchTypeFieldChoices',
      'Ask the vendor for the choices of a field, by settings that are not saved',
      { body: typeFieldBody, response: { 200: fieldChoices } },
      { bodyLimit: MAX_RESOURCE_BYTES },
    ),
    async (request, reply) => {
      // The mappings of a form that is being filled in need not be complete.
      const { subscriptions: _, ...settings } = request.body.settings;
      const { check: _check, ...bySchema } = typeOf(request, connectors);
      const faults = faultsOf(bySchema, settings);
      if (faults.length > 0) throw invalidRequest(...faults);
      const target = unsavedIn(request, settings);
      return choicesFor(bySchema.type, target, queryIn(request.body), disconnectSignal(reply));
    },
  );

  app.post(
    '/workspaces/:workspaceId/destinations/:destinationId/hook',
    operation(
      'destinations.hook',
      'runDestinationHook',
      'Run a hook of a subscription at the vendor, and keep its outputs',
      { body: hookBody, response: { 200: hookResult } },
      { bodyLimit: MAX_RESOURCE_BYTES },
    ),
    async (request, reply) => {
      const { hook, inputs, again } = request.body;
      const stored = entityOf(request, dependencies, 'destination');
      checkVersion(request, stored);
      const place = { at: request.body.subscription, hook };
      const subscription = subscriptionAt(stored, place.at);
      if (subscription === undefined)
        throw invalidRequest({ path: '/subscription', message: 'is none of the destination' });
      const runHook = connectors.connector(stored.type)?.runHook;
      if (runHook === undefined) throw invalidRequest({ path: '/hook', message: 'is none of the type' });
      const mapping = objectIn(subscription.mapping);
      const { pending, ...before } = objectIn(mapping[hook]);
      const outputs = isObject(before.outputs) ? before.outputs : undefined;
      if (pending !== undefined && again !== true) throw conflict('hook_unfinished');
      if (pending === undefined && outputs !== undefined && isDeepStrictEqual(before.inputs, inputs))
        return { outputs, message: null, error: null };
      const action = String(subscription.action);
      await check(stored, action, place, { pending: inputs, inputs, outputs: { room: OUTPUTS_ROOM } });
      const target = opened(dependencies, stored);
      const run = { action, hook, inputs, payload: mapping };
      return turns.run(request.workspace.id, disconnectSignal(reply), async () => {
        // Of two calls at a time the fold refuses one. While the end of the run is not known, the next call asks the person.
        await write(request, stored, settingsWith(stored, place, { ...before, pending: inputs }));
        const result = await runHook(target, outputs === undefined ? run : { ...run, outputs }, UNHURRIED);
        const isDone = result.outcome === 'done';
        if (result.outcome !== 'unknown')
          await writeEnd(
            request,
            stored,
            place,
            inputs,
            isDone ? { inputs, outputs: result.outputs } : before,
          );
        return isDone
          ? { outputs: result.outputs, message: result.message ?? null, error: null }
          : { outputs: null, message: null, error: result.error };
      });
    },
  );

  async function choicesFor(
    type: string,
    destination: ConnectorDestination,
    query: FieldQuery,
    disconnected: AbortSignal,
  ): Promise<FieldChoices> {
    const choices = connectors.connector(type)?.choices;
    if (choices === undefined) throw invalidRequest({ path: '/type', message: 'has no dynamic fields' });
    const { id, version, workspaceId, settings } = destination;
    // The account that a destination is connected with is none of its settings.
    const asked = JSON.stringify([workspaceId, type, id, version, settings, query]);
    const key = createHash('sha256').update(asked).digest('base64');
    const known = kept.get(key);
    if (known !== undefined && known.until > clock()) return known.choices;
    return turns.run(workspaceId, disconnected, async (signal) => {
      const found = await choices(destination, query, { signal });
      kept.delete(key);
      if (found.error !== undefined || JSON.stringify(found).length > MAX_KEPT_CHARACTERS) return found;
      kept.set(key, { until: clock() + KEPT_MS, choices: found });
      const [oldest] = kept.keys();
      if (kept.size > MAX_KEPT && oldest !== undefined) kept.delete(oldest);
      return found;
    });
  }

  /** 400 where the action has no such hook, and where the mapping would become too large. */
  async function check(stored: Destination, action: string, place: Place, value: JsonObject): Promise<void> {
    const description = connectors.descriptions.get(stored.type);
    if (description === undefined) throw conflict('unusable');
    await connectors.prepare(stored.type);
    const { hooks = [] } = description.details?.().actions.find((one) => one.action === action) ?? {};
    if (!hooks.some(({ hook }) => hook === place.hook))
      throw invalidRequest({ path: '/hook', message: `is none of the action ${action}` });
    const { settings } = opened(dependencies, stored);
    const mapping = `/settings/subscriptions/${place.at}/mapping`;
    const faults = faultsOf(description, settingsWith({ settings }, place, value)).filter(
      ({ path }) => path === mapping || path.startsWith(`${mapping}/${place.hook}`),
    );
    if (faults.length > 0) throw invalidRequest(...faults);
  }

  async function write(request: FastifyRequest, stored: Destination, settings: JsonObject): Promise<void> {
    await propose(request, dependencies, {
      type: 'destination.updated',
      entity: stored.id,
      expected_version: stored.version,
      data: { settings },
    });
  }

  /** Writes the end of a run into what is stored by now. 409 with the outputs where the subscription is another one. */
  async function writeEnd(
    request: FastifyRequest,
    { id }: Destination,
    place: Place,
    inputs: JsonObject,
    value: JsonObject,
  ): Promise<void> {
    for (let repetition = 0; ; repetition++) {
      const current = entityOf(request, dependencies, 'destination', id);
      const { pending } = objectIn(objectIn(subscriptionAt(current, place.at)?.mapping)[place.hook]);
      if (!isDeepStrictEqual(pending, inputs)) throw conflict('version').with({ outputs: value.outputs });
      try {
        return await write(request, current, settingsWith(current, place, value));
      } catch (error) {
        const isLost = error instanceof ApiError && (error.status === 409 || error.status === 412);
        if (isLost && repetition < REPETITIONS) continue;
        // What the service made is known to this caller alone.
        throw error instanceof ApiError ? error.with({ outputs: value.outputs }) : error;
      }
    }
  }
};

interface Place {
  readonly at: number;
  readonly hook: string;
}

function subscriptionAt({ settings }: Pick<Destination, 'settings'>, at: number): JsonObject | undefined {
  const one = Array.isArray(settings.subscriptions) ? settings.subscriptions[at] : undefined;
  return isObject(one) ? one : undefined;
}

/** The settings with what is known of a hook, in its mapping: `inputs`, `outputs`, and `pending` while it runs. */
function settingsWith(
  { settings }: Pick<Destination, 'settings'>,
  { at, hook }: Place,
  value: JsonObject,
): JsonObject {
  const all = Array.isArray(settings.subscriptions) ? settings.subscriptions : [];
  return {
    ...settings,
    subscriptions: all.map((one, index) => {
      if (index !== at || !isObject(one)) return one;
      const { [hook]: _, ...mapping } = objectIn(one.mapping);
      const isEmpty = Object.keys(value).length === 0;
      return { ...one, mapping: isEmpty ? mapping : { ...mapping, [hook]: value } };
    }),
  };
}

function queryIn(body: Static<typeof fieldBody>): FieldQuery {
  const { action, field, payload, page, query, hook, inputs } = body;
  const stated = { page, query, hook, inputs };
  const others = Object.entries(stated).filter(([, value]) => value != null);
  return { action, field, payload: payload ?? {}, ...Object.fromEntries(others) };
}
