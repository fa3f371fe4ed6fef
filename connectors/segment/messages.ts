import type {
  FieldQuery,
  HookRun,
  Json,
  JsonObject,
  KnownAudience,
  NewAudience,
  PersonIdentity,
} from '@tributary/core';
import type { Details } from './details.ts';

/** An action of a destination, with its condition and its mapping of events. */
export interface Subscription {
  readonly name: string;
  /** In the pack's own query language, e.g. `type = "track"`. */
  readonly subscribe: string;
  readonly partnerAction: string;
  readonly mapping: JsonObject;
}

/** How requests are authorized by a token: a grant for the settings, or a token that is one of them. */
export type Authorization = 'grant' | 'token';

interface OfDestination {
  readonly job: number;
  readonly destination: string;
  readonly authorization?: Authorization;
  readonly settings: JsonObject;
}

/** An event for the subscriptions of a destination. */
interface ForSubscriptions extends OfDestination {
  /** Names of the presets to run, with the mappings of the pack. */
  readonly presets: readonly string[];
  readonly subscriptions: readonly Subscription[];
  readonly event: JsonObject;
}

/** A call of a destination to its vendor, beside deliveries. */
export type VendorCall =
  | ({ readonly kind: 'choices' } & FieldQuery)
  | ({ readonly kind: 'hook' } & HookRun)
  | ({ readonly kind: 'delete' } & PersonIdentity)
  | ({ readonly kind: 'create-audience' } & NewAudience)
  | ({ readonly kind: 'find-audience' } & KnownAudience);

/** Messages to the process of the pack. */
export type ToPack =
  | ({ readonly op: 'run' } & ForSubscriptions)
  /** As `run`, but no request leaves the process: each is recorded, and answered by an empty 200. */
  | ({ readonly op: 'preview' } & ForSubscriptions)
  | ({ readonly op: 'test' } & OfDestination)
  /** How many of the events meet each trigger. */
  | {
      readonly op: 'match';
      readonly job: number;
      readonly triggers: readonly string[];
      readonly events: readonly JsonObject[];
    }
  | ({ readonly op: 'call'; readonly call: VendorCall } & OfDestination)
  /** What forms need of it. */
  | { readonly op: 'describe'; readonly job: number; readonly destination: string }
  | { readonly op: 'answer'; readonly request: number; readonly answer: HttpAnswer }
  | { readonly op: 'unanswered'; readonly request: number };

/** Messages of the process. It has no network: its HTTP requests are sent by the parent process. */
export type FromPack =
  /** First message: the process is ready. */
  | { readonly op: 'ready' }
  | { readonly op: 'request'; readonly job: number; readonly request: number; readonly sent: HttpSent }
  | ({ readonly op: 'done'; readonly job: number } & Finished);

/** The end of a job: the outcomes of `run`, `test` and `call`, the previews, the details, or the counts. */
export interface Finished {
  readonly outcomes: readonly ActionOutcome[];
  readonly previews: readonly RecordedPreview[];
  readonly details?: Details;
  /** Of `match`, by trigger. */
  readonly matches?: readonly number[];
}

export interface RecordedPreview {
  readonly subscription: string;
  readonly action: string;
  readonly matches: boolean;
  readonly payload: Json;
  readonly requests: readonly HttpSent[];
  readonly error: string | null;
}

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
  /** Of a `call`: what the pack returns. */
  readonly output?: Json;
  /** Absent after success. */
  readonly error?: { readonly name: string; readonly status?: number; readonly message: string };
}
