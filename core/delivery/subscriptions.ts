import type { Json, JsonObject } from '../event/event.ts';

/** A condition on another field of the action: `parent.child` for a member of it. */
export interface FieldCondition {
  readonly field: string;
  readonly operator: 'is' | 'is_not';
  /** Absent: no value. */
  readonly value?: Json;
}

export interface FieldConditions {
  readonly match: 'all' | 'any';
  readonly conditions: readonly FieldCondition[];
}

/** A field of an action, which a mapping gives a value. */
export interface ActionField {
  readonly field: string;
  readonly label: string;
  readonly description?: string;
  readonly type: string;
  /** Absent: it is optional. */
  readonly required?: true;
  /** It is required while these hold. */
  readonly required_if?: FieldConditions;
  /** It applies while these hold. */
  readonly depends_on?: FieldConditions;
  /** A list of values of the type. */
  readonly multiple?: true;
  readonly choices?: readonly { readonly value: Json; readonly label: string }[];
  readonly default?: Json;
  /** The vendor has the choices. */
  readonly dynamic?: true;
  readonly allow_null?: true;
  /** Its authors do not show it in forms. */
  readonly hidden?: true;
  /** Members of an object. */
  readonly fields?: readonly ActionField[];
  /** The object may have further members. */
  readonly open?: true;
}

/** Something that a destination does with an event. */
export interface DestinationAction {
  readonly action: string;
  readonly title: string;
  readonly description: string;
  /** The trigger that its authors propose. */
  readonly trigger?: string;
  readonly sync_modes?: readonly string[];
  /** Keys of mappings beside the fields: hooks, and names of earlier releases. */
  readonly other_keys?: readonly string[];
  readonly hooks?: readonly ActionHook[];
  readonly fields: readonly ActionField[];
}

/** Something that an action does at its vendor for a subscription, once: its outputs become part of the mapping. */
export interface ActionHook {
  readonly hook: string;
  readonly label: string;
  readonly description: string;
  readonly fields: readonly ActionField[];
}

/** A predefined subscription. */
export interface PresetSubscription {
  readonly name: string;
  readonly action: string;
  readonly trigger: string;
  readonly mapping: JsonObject;
}

/** One that a new destination gets. */
export interface DefaultSubscription extends PresetSubscription {
  /** False for a draft: its action requires a field that is for the user to fill. */
  readonly enabled: boolean;
}

/** What an event would become by one subscription; nothing is sent. */
export interface SubscriptionPreview {
  readonly subscription: string;
  readonly action: string;
  /** Whether the event meets the trigger. */
  readonly matches: boolean;
  /** The values of the fields; null where the event does not match, or the mapping fails. */
  readonly payload: Json;
  /** With secrets masked. */
  readonly requests: readonly PreviewedRequest[];
  /** Why it ends without a further request. */
  readonly error: string | null;
}

export interface PreviewedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A request that was sent, with secrets masked in it and in its response. */
export interface AnsweredRequest extends PreviewedRequest {
  /** Null where none was received. */
  readonly response: { readonly status: number; readonly body: string } | null;
}
