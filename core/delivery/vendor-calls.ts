import type { Json, JsonObject } from '../event/event.ts';

/* What a connector asks its vendor beside deliveries. Nothing here throws for what a vendor answers: its refusal is a result. */

/** Why a call got nothing. `reason` is shown to users: short, no secrets. */
export type VendorFailure = Answered & { readonly reason: string } & (
    | { readonly outcome: 'refused' }
    /** To be repeated. Where a request was sent, whether the vendor acted is unknown. `afterMs`: the delay that it requested. */
    | { readonly outcome: 'retry'; readonly afterMs?: number }
  );

/** The HTTP status of an answer and the start of its text, as far as there are any. */
export interface Answered {
  readonly status?: number;
  readonly response?: string;
}

/** Why a vendor gave nothing, for the person who asked. `code` is the vendor's, else `not_sent` or `unanswered`. */
export interface VendorError {
  readonly message: string;
  readonly code: string;
}

/** A question for the choices of a field that only the vendor knows. */
export interface FieldQuery {
  readonly action: string;
  /** `field`, `object.member` or `list.[0].member`; `object.__keys__` for the names of its members. */
  readonly field: string;
  /** The values of the other fields, on which the choices may depend. */
  readonly payload: JsonObject;
  readonly page?: string;
  /** A text that choices contain, where the vendor searches. */
  readonly query?: string;
  /** The hook of which the field is an input, and its other inputs. */
  readonly hook?: string;
  readonly inputs?: JsonObject;
}

export interface FieldChoices {
  readonly choices: readonly FieldChoice[];
  /** `page` of the next question; absent after the last. */
  readonly next_page?: string;
  readonly error?: VendorError;
}

export interface FieldChoice {
  readonly value: Json;
  readonly label: string;
  readonly description?: string;
}

/** A run of a hook of an action, such as one that creates a list for its subscription. */
export interface HookRun {
  readonly action: string;
  readonly hook: string;
  readonly inputs: JsonObject;
  /** Those of the run before: a hook that can updates what it had made. */
  readonly outputs?: JsonObject;
  /** The mapping of the subscription. */
  readonly payload: JsonObject;
}

export type HookResult =
  | { readonly outcome: 'done'; readonly outputs: JsonObject; readonly message?: string }
  /** `unknown`: the vendor may have done it. */
  | { readonly outcome: 'refused' | 'unknown'; readonly error: VendorError };

/** A person by the ids of events. */
export interface PersonIdentity {
  readonly user_id?: string;
  readonly anonymous_id?: string;
}

/** `accepted`: the vendor took the request; it may delete later. `absent`: it was searched for the person, who is not there. */
export type PersonDeletion =
  | { readonly outcome: 'accepted' | 'absent'; readonly status: number; readonly response?: string }
  | VendorFailure;

/** An audience to be created at the vendor. */
export interface NewAudience {
  readonly id: string;
  readonly key: string;
  readonly name: string;
  /** By `audience_fields` of the type. */
  readonly settings: JsonObject;
}

export interface KnownAudience {
  readonly external_id: string;
  readonly settings: JsonObject;
}

/** `external_id` names the audience in further calls, and in the events of its members. */
export type AudienceResult = { readonly outcome: 'found'; readonly external_id: string } | VendorFailure;
