import { createRequire } from 'node:module';
import type { Json, JsonObject } from '@tributary/core';

/** The used part of a destination's definition. The pack's own types would make tsc check all of the pack. */
export interface PackDefinition {
  readonly name: string;
  readonly slug?: string;
  readonly authentication?: {
    readonly scheme?: string;
    readonly fields?: Readonly<Record<string, PackField>>;
    readonly testAuthentication?: unknown;
  };
  readonly presets?: readonly PackPreset[];
  readonly audienceConfig?: object;
  readonly audienceFields?: Readonly<Record<string, PackField>>;
  readonly onDelete?: unknown;
  readonly actions: Readonly<Record<string, PackAction>>;
}

export interface PackAction {
  readonly title: string;
  readonly description?: string;
  readonly defaultSubscription?: string;
  readonly hidden?: boolean;
  readonly fields?: Readonly<Record<string, PackField>>;
  readonly syncMode?: { readonly choices: readonly { readonly value: string }[] };
  readonly hooks?: Readonly<Record<string, PackHook>>;
  readonly dynamicFields?: object;
  readonly perform?: (request: unknown, data: { readonly payload: Json }) => unknown;
  readonly performBatch?: (request: unknown, data: BatchData) => unknown;
}

/** What an action gets of a batch: the payloads that its schema took, and all events. */
interface BatchData {
  readonly payload: readonly Json[];
  readonly rawData: readonly unknown[];
}

export interface PackHook {
  readonly label: string;
  readonly description: string;
  /** `dynamic` is the function that asks for choices. */
  readonly inputFields?: Readonly<Record<string, PackField>>;
}

interface PackConditions {
  readonly match?: 'any' | 'all';
  readonly conditions: readonly {
    readonly fieldKey?: string;
    readonly type?: string;
    readonly operator: 'is' | 'is_not';
    readonly value?: Json;
  }[];
}

export interface PackField {
  readonly label: string;
  readonly description?: string;
  readonly type?: string;
  readonly required?: boolean | PackConditions;
  readonly depends_on?: PackConditions;
  readonly default?: Json;
  readonly choices?: readonly (Json | { readonly value: Json; readonly label: string })[];
  readonly multiple?: boolean;
  readonly dynamic?: unknown;
  readonly allowNull?: boolean;
  readonly unsafe_hidden?: boolean;
  readonly additionalProperties?: boolean;
  readonly properties?: Readonly<Record<string, PackField>>;
}

export interface PackPreset {
  readonly name: string;
  readonly type: string;
  readonly subscribe?: string;
  readonly partnerAction: string;
  readonly mapping?: JsonObject;
}

/** The used part of a running destination. */
export interface PackDestination {
  responses: unknown[];
  onSubscription(
    subscription: object,
    event: object,
    settings: object,
    auth: object,
  ): Promise<readonly { readonly output?: unknown; readonly multistatus?: readonly PackStatus[] }[]>;
  readonly actions: Readonly<Record<string, { executeHook(hook: string, data: object): Promise<unknown> }>>;
  executeDynamicField(action: string, field: string, data: object, dynamic?: unknown): Promise<unknown>;
  /** Absent where it deletes nobody. */
  onDelete?(person: object, settings: object): Promise<unknown>;
  createAudience(audience: object): Promise<unknown>;
  getAudience(audience: object): Promise<unknown>;
  testAuthentication(settings: object): Promise<void>;
  /** Undefined where the destination has no grant. */
  refreshAccessToken(settings: object, auth: object): Promise<{ readonly accessToken?: unknown } | undefined>;
}

/** What the pack says of an event of a batch. */
export interface PackStatus {
  readonly status?: unknown;
  readonly errormessage?: unknown;
}

const require = createRequire(import.meta.url);

/** Loaded at their first use: `require` costs several microseconds each time. */
let core: PackCore | undefined;
let subscriptionsKit: PackSubscriptions | undefined;
const packCore = (): PackCore => (core ??= require('@segment/actions-core'));

/** Loads one destination of the pack and its dependencies; only in a process of its own. */
export function loadDefinition(destination: string): PackDefinition {
  // Not through the pack's index, which would load all 220 destinations.
  const loaded: { default: PackDefinition } = require(
    `@segment/action-destinations/dist/destinations/${destination}`,
  );
  return loaded.default;
}

interface PackCore {
  readonly Destination: new (definition: PackDefinition) => PackDestination;
  readonly MultiStatusResponse: new () => MultiStatus;
  transform(mapping: JsonObject, event: JsonObject): Json;
}

interface MultiStatus {
  length(): number;
  isErrorResponseAtIndex(at: number): boolean;
  pushSuccessResponse(response: {
    readonly status: number;
    readonly sent: Json;
    readonly body: string;
  }): void;
}

/**
 * What became of a call of `performBatch`. It was not performed where its payloads do not correspond to the events, as actions
 * count by their places: `incomplete`: the schema refused some, which were left out; `apart`: the action would leave out some.
 * `each`: it answered for each payload.
 */
export interface BatchCall {
  performed: 'not' | 'incomplete' | 'apart' | 'whole' | 'each';
}

interface PackHooks {
  /** The values that an action got of a mapping, before it makes its requests. */
  onPayload(payload: Json): void;
  /** The call that a batch is part of. */
  batchCall(): BatchCall | undefined;
  /** Runs an action without sending its requests: each is answered by an empty 200. */
  tried<T>(work: () => Promise<T>): Promise<T>;
}

export function startDestination(
  destination: string,
  definition: PackDefinition,
  hooks?: PackHooks,
): PackDestination {
  const { Destination } = packCore();
  // The pack derives schema ids `<name>:<title of the action>`, which must be URIs, and no two destinations may share.
  const actions = Object.entries(definition.actions).map(([slug, action]) => {
    const titled = { ...action, title: slug };
    return [slug, hooks === undefined ? titled : hooked(titled, hooks)];
  });
  const name = `destination-${destination}`;
  return new Destination({ ...definition, name, actions: Object.fromEntries(actions) });
}

function hooked(action: PackAction, { onPayload, batchCall, tried }: PackHooks): PackAction {
  const { perform, performBatch } = action;
  const { MultiStatusResponse } = packCore();
  /** Found out by its first batch. */
  let answersForEach = true;

  /** What the action says of payloads before it sends any; undefined where it refuses none, or all. */
  const leftOut = async (request: unknown, data: BatchData): Promise<MultiStatus | undefined> => {
    const { payload } = data;
    if (!answersForEach || payload.length < 2 || performBatch === undefined) return undefined;
    try {
      // Some actions note the places in the payloads.
      const answer = await tried(async () =>
        performBatch(request, { ...data, payload: structuredClone(payload) }),
      );
      if (!(answer instanceof MultiStatusResponse) || answer.length() !== payload.length) return undefined;
      const refused = payload.filter((_, at) => answer.isErrorResponseAtIndex(at));
      return refused.length > 0 && refused.length < payload.length ? answer : undefined;
    } catch {
      return undefined;
    }
  };

  return {
    ...action,
    ...(perform && {
      perform(request, data) {
        onPayload(data.payload);
        return perform(request, data);
      },
    }),
    ...(performBatch && {
      async performBatch(request, data) {
        const { payload, rawData } = data;
        const call = batchCall();
        if (call === undefined) return performBatch(request, data);
        if (payload.length < rawData.length) {
          call.performed = 'incomplete';
          const taken = new MultiStatusResponse();
          for (const sent of payload) taken.pushSuccessResponse({ status: 200, sent, body: '' });
          return taken;
        }
        const apart = await leftOut(request, data);
        if (apart !== undefined) {
          call.performed = 'apart';
          return apart;
        }
        onPayload(payload[0] ?? null);
        const answer = await performBatch(request, data);
        answersForEach = answer instanceof MultiStatusResponse;
        const isForEach = answer instanceof MultiStatusResponse && answer.length() === payload.length;
        call.performed = isForEach ? 'each' : 'whole';
        return answer;
      },
    }),
  };
}

/** The values that a mapping gives an event, before the action's schema checks them. */
export function transformed(mapping: JsonObject, event: JsonObject): Json {
  return packCore().transform(mapping, event);
}

interface PackSubscriptions {
  parseFql(subscribe: string): { readonly error?: unknown };
  validate(parsed: object, event: object): boolean;
}

/** Whether events meet a condition; one that cannot be parsed, or followed into an event, is met by none. */
export function conditionOf(subscribe: string): (event: JsonObject) => boolean {
  subscriptionsKit ??= require('@segment/destination-subscriptions') as PackSubscriptions;
  const { parseFql, validate } = subscriptionsKit;
  const parsed = parseFql(subscribe);
  if (parsed.error !== undefined) return () => false;
  return (event) => {
    try {
      return validate(parsed, event);
    } catch {
      // The pack throws for a path of nothing but dots and brackets.
      return false;
    }
  };
}

/** Replaces `cross-fetch` and the global `fetch` for all of the pack. */
export function replaceFetch(fetch: typeof globalThis.fetch): void {
  const { Headers, Request, Response } = globalThis;
  const path = require.resolve('cross-fetch');
  const exports = Object.assign(fetch.bind(undefined), { fetch, default: fetch, Headers, Request, Response });
  const { prototype } = require('node:module') as { prototype: object };
  require.cache[path] = Object.assign(Object.create(prototype), {
    id: path,
    filename: path,
    loaded: true,
    exports,
  });
  globalThis.fetch = fetch;
}

export interface Started {
  readonly definition: PackDefinition;
  readonly running: PackDestination;
}

/** The destinations of the pack that are started in this process, each at its first job. */
export class StartedDestinations {
  readonly #start: (name: string) => Started;
  readonly #started = new Map<string, Started>();

  constructor(start: (name: string) => Started) {
    this.#start = start;
  }

  /**
   * Runs a job on a destination. The pack collects all responses and reads none of them, so they are dropped at the end of
   * each job; not at the end of all jobs, as under load there is always one under way.
   */
  async use<T>(name: string, job: (started: Started) => Promise<T>): Promise<T> {
    const started = this.#started.get(name) ?? this.#start(name);
    this.#started.set(name, started);
    try {
      return await job(started);
    } finally {
      started.running.responses = [];
    }
  }
}
