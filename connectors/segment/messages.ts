import type { JsonObject } from '@tributary/core';
import type { Chosen } from './definitions.ts';

/** An action of a destination, with its condition and its mapping of events. */
export interface Subscription {
  readonly name: string;
  /** In the pack's own query language, e.g. `type = "track"`. */
  readonly subscribe: string;
  readonly partnerAction: string;
  readonly mapping: JsonObject;
}

/** Messages to the process of the pack. */
export type ToPack =
  | {
      readonly op: 'run';
      readonly job: number;
      readonly destination: Chosen;
      readonly settings: JsonObject;
      /** Names of the presets to run. */
      readonly presets: readonly string[];
      /** Actions to run beside the presets. */
      readonly subscriptions: readonly Subscription[];
      readonly event: JsonObject;
    }
  | { readonly op: 'test'; readonly job: number; readonly destination: Chosen; readonly settings: JsonObject }
  | { readonly op: 'answer'; readonly request: number; readonly answer: HttpAnswer }
  | { readonly op: 'unanswered'; readonly request: number };

/** Messages of the process. It has no network: its HTTP requests are sent by the parent process. */
export type FromPack =
  /** First message: the process is ready. */
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

/** The outcome of an action that an event matched. Actions run one after the other. */
export interface ActionOutcome {
  readonly action: string;
  /** Requests that it made. */
  readonly requests: number;
  /** Absent after success. */
  readonly error?: { readonly name: string; readonly status?: number; readonly message: string };
}
