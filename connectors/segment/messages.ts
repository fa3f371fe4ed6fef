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
  /** Its events go to the action's `performBatch`, also where there is one; absent: one by one to `perform`. */
  readonly batch?: Batch;
}

export interface Batch {
  /** Events with different values of these fields go into different batches. */
  readonly keys: readonly string[];
}

/** How requests are authorized by a token: a grant for the settings, or a token that is one of them. */
export type Authorization = 'grant' | 'token';

interface OfDestination {
  readonly job: number;
  readonly destination: string;
  readonly authorization?: Authorization;
  readonly settings: JsonObject;
}

/** Events for the subscriptions of a destination. */
interface ForSubscriptions extends OfDestination {
  /** Names of the presets to run, with the mappings of the pack. */
  readonly presets: readonly string[];
  readonly subscriptions: readonly Subscription[];
  readonly events: readonly SubjectEvent[];
  /** Only this one of all: the presets, then the subscriptions. */
  readonly only?: number;
}

export interface SubjectEvent {
  /** Events of one subject stay in their order. */
  readonly subject: string;
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
  | ({ readonly op: 'call'; readonly call: VendorCall } & OfDestination)
  /** How many of the events meet each trigger. */
  | {
      readonly op: 'match';
      readonly job: number;
      readonly triggers: readonly string[];
      readonly events: readonly JsonObject[];
    }
  /** What forms need of it. */
  | { readonly op: 'describe'; readonly job: number; readonly destination: string }
  | { readonly op: 'answer'; readonly request: number; readonly answer: HttpAnswer }
  | { readonly op: 'unanswered'; readonly request: number };

/** Messages of the process. It has no network: its HTTP requests are sent by the parent process. */
export type FromPack =
  /** First message: the process is ready. */
  | { readonly op: 'ready' }
  | ({ readonly op: 'request'; readonly job: number; readonly request: number } & UnitRequest)
  | ({ readonly op: 'progress'; readonly job: number } & Progress)
  | ({ readonly op: 'done'; readonly job: number } & Progress & Finished);

/** The call of an action: one event, or a batch. Events are numbers of the job's. */
export interface Unit {
  /** Its number among the presets and subscriptions. */
  readonly subscription: number;
  readonly action: string;
  readonly events: readonly number[];
}

/** A request, of the unit with this number. */
export interface UnitRequest {
  readonly unit: number;
  /** Those of the unit that it carries. */
  readonly events: readonly number[];
  readonly sent: HttpSent;
  /** It asks for the access token of the requests of the action. */
  readonly isGrant?: true;
}

/** What is known of `run`, `test` and `call`: all units, before the first request of several events, and outcomes as they come. */
export interface Progress {
  readonly units?: readonly Unit[];
  readonly outcomes: readonly ActionOutcome[];
}

/** The end of a job, with the previews, the details, or the counts. */
export interface Finished {
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

/** The end of a unit. */
export interface ActionOutcome {
  readonly unit: number;
  /** Of a `call`: what the pack returns. */
  readonly output?: Json;
  /** Absent after success. */
  readonly error?: { readonly name: string; readonly status?: number; readonly message: string };
  /** Of a batch: what the action says of each event of the unit; null where it says nothing. */
  readonly each?: readonly (EventOutcome | null)[];
}

export interface EventOutcome {
  /** As of a vendor's answer; absent where the event was refused before it was sent. */
  readonly status?: number;
  readonly message: string;
}
