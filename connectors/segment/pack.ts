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
  ): Promise<readonly { readonly output?: unknown }[]>;
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

const require = createRequire(import.meta.url);

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
  transform(mapping: JsonObject, event: JsonObject): Json;
}

/** `onPayload` is called with the values that an action got of a mapping, before it makes its requests. */
export function startDestination(
  destination: string,
  definition: PackDefinition,
  onPayload: (payload: Json) => void = () => undefined,
): PackDestination {
  const core: PackCore = require('@segment/actions-core');
  // The pack derives schema ids `<name>:<title of the action>`, which must be URIs, and no two destinations may share.
  const actions = Object.entries(definition.actions).map(([slug, action]): [string, PackAction] => {
    const { perform } = action;
    if (perform === undefined) return [slug, action];
    return [
      slug,
      {
        ...action,
        title: slug,
        perform(request, data) {
          onPayload(data.payload);
          return perform(request, data);
        },
      },
    ];
  });
  const name = `destination-${destination}`;
  return new core.Destination({ ...definition, name, actions: Object.fromEntries(actions) });
}

/** The values that a mapping gives an event, before the action's schema checks them. */
export function transformed(mapping: JsonObject, event: JsonObject): Json {
  const core: PackCore = require('@segment/actions-core');
  return core.transform(mapping, event);
}

interface PackTriggers {
  parseFql(trigger: string): { readonly error?: unknown };
  validate(parsed: object, event: JsonObject): boolean;
}

/** How many of the events meet each trigger. */
export function matchesOf(triggers: readonly string[], events: readonly JsonObject[]): readonly number[] {
  const { parseFql, validate }: PackTriggers = require('@segment/destination-subscriptions');
  return triggers.map((trigger) => {
    const parsed = parseFql(trigger);
    return parsed.error === undefined ? events.filter((event) => validate(parsed, event)).length : 0;
  });
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
