import { createRequire } from 'node:module';
import type { Json, JsonObject } from '@tributary/core';
import type { Chosen } from './definitions.ts';

/** The used part of a destination's definition. The pack's own types would make tsc check all of the pack. */
export interface PackDefinition {
  readonly name: string;
  readonly slug?: string;
  readonly authentication?: {
    readonly fields?: Readonly<Record<string, PackField>>;
    readonly testAuthentication?: unknown;
  };
  readonly presets?: readonly PackPreset[];
  readonly actions: Readonly<
    Record<string, { readonly title: string; readonly fields?: Readonly<Record<string, unknown>> }>
  >;
}

export interface PackField {
  readonly label: string;
  readonly description: string;
  readonly type?: string;
  readonly required?: boolean;
  readonly default?: Json;
  readonly choices?: readonly (string | { readonly value: string; readonly label: string })[];
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
  testAuthentication(settings: object): Promise<void>;
}

const require = createRequire(import.meta.url);

/** Loads one destination of the pack and its dependencies; only in a process of its own. */
export function loadDefinition(destination: Chosen): PackDefinition {
  // Not through the pack's index, which would load all 220 destinations.
  const loaded: { default: PackDefinition } = require(
    `@segment/action-destinations/dist/destinations/${destination}`,
  );
  return loaded.default;
}

export function startDestination(definition: PackDefinition): PackDestination {
  const core: { Destination: new (definition: PackDefinition) => PackDestination } =
    require('@segment/actions-core');
  // The pack derives schema ids `<name>:<action>` from the name, which must be URIs.
  const name = `destination-${definition.name.replace(/[^A-Za-z0-9]+/g, '-')}`;
  return new core.Destination({ ...definition, name });
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
  readonly #start: (name: Chosen) => Started;
  readonly #started = new Map<Chosen, Started>();

  constructor(start: (name: Chosen) => Started) {
    this.#start = start;
  }

  /**
   * Runs a job on a destination. The pack collects all responses and reads none of them, so they are dropped at the end of
   * each job; not at the end of all jobs, as under load there is always one under way.
   */
  async use<T>(name: Chosen, job: (started: Started) => Promise<T>): Promise<T> {
    const started = this.#started.get(name) ?? this.#start(name);
    this.#started.set(name, started);
    try {
      return await job(started);
    } finally {
      started.running.responses = [];
    }
  }
}
