import type { JsonObject } from '@tributary/core';
import type { Chosen } from './definitions.ts';

/** One of a destination's actions, when it runs and what it makes of an event. */
export interface Subscription {
  readonly name: string;
  /** In the pack's own query language, e.g. `type = "track"`. */
  readonly subscribe: string;
  readonly partnerAction: string;
  readonly mapping: JsonObject;
}

/** What the process of the pack is told. */
export type ToPack =
  | {
      readonly op: 'run';
      readonly job: number;
      readonly destination: Chosen;
      readonly settings: JsonObject;
      /** Names of the presets that run. */
      readonly presets: readonly string[];
      /** What runs beside them. */
      readonly subscriptions: readonly Subscription[];
      readonly event: JsonObject;
    }
  | { readonly op: 'test'; readonly job: number; readonly destination: Chosen; readonly settings: JsonObject }
  | { readonly op: 'answer'; readonly request: number; readonly answer: HttpAnswer }
  | { readonly op: 'unanswered'; readonly request: number };

/** What it tells. It has no network: what it would send, this process sends for it. */
export type FromPack =
  /** Once, before anything else: it has come up. */
  | { readonly op: 'ready' }
  | { readonly op: 'request'; readonly job: number; readonly request: number; readonly sent: HttpSent }
  | { readonly op: 'done'; readonly job: number; readonly outcomes: readonly ActionOutcome[] };

export interface HttpSent {
  readonly method: string;
  readonly url: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Base64. */
  readonly body: string;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Base64. */
  readonly body: string;
}

/** What became of one action that an event matched. */
export interface ActionOutcome {
  readonly action: string;
  /** Absent when it succeeded. */
  readonly error?: { readonly name: string; readonly status?: number; readonly message: string };
}
