import { isDeepStrictEqual } from 'node:util';
import { type CanonicalEvent, type Json, type JsonObject, objectIn } from '../event/event.ts';
import type { Warehouse } from '../ports/warehouse.ts';
import type { Access } from './connection.ts';
import type { Delivery } from './delivery.ts';
import type {
  ActionField,
  AnsweredRequest,
  DefaultSubscription,
  DestinationAction,
  SubscriptionPreview,
} from './subscriptions.ts';
import type {
  Answered,
  AudienceResult,
  FieldChoices,
  FieldQuery,
  HookResult,
  HookRun,
  KnownAudience,
  NewAudience,
  PersonDeletion,
  PersonIdentity,
} from './vendor-calls.ts';

/** The result of one delivery. `reason` is shown to users: short, no secrets. */
export type DeliveryResult = Answered &
  (
    | {
        readonly outcome: 'delivered';
        /** The delay that the destination requested before the next request (Kafka's throttle time), ms. */
        readonly afterMs?: number;
        /** The attempt is recorded with its answer, even where it is the first: the vendor's word is worth keeping. */
        readonly recorded?: true;
      }
    /** Nothing was sent, as the settings select nothing of the event. */
    | { readonly outcome: 'unwanted'; readonly reason: string }
    | {
        readonly outcome: 'retry';
        readonly reason: string;
        /** The delay that the destination requested before the next request (`Retry-After`), ms. */
        readonly afterMs?: number;
        /**
         * Refused for the rate of requests alone (429 and the like): nothing is wrong with the delivery or the destination,
         * which gets fewer requests a second.
         */
        readonly throttled?: true;
        /** The service does not accept the tokens of the destination any more: it waits until it is connected again. */
        readonly disconnected?: true;
        /** The connection was reset before an answer: worth one immediate retry. */
        readonly reset?: boolean;
      }
    | {
        readonly outcome: 'dead';
        readonly reason: string;
        /** Refused here, before anything was sent: no sign of the destination's health. */
        readonly local?: true;
      }
  );

/** A destination as a connector gets it. Settings hold unsealed secrets: never log them. */
export interface ConnectorDestination {
  readonly id: string;
  /** Absent: that of no stored destination. */
  readonly name?: string;
  readonly workspaceId: string;
  readonly version: number;
  readonly settings: JsonObject;
  /**
   * The access token of a stored destination whose type connects to a service; `refused` is the one that the service refused
   * last, for which there may be another one. Never rejects.
   */
  access?(refused?: string): Promise<Access>;
  /** Settings that the answer of the service decides. */
  readonly connected?: JsonObject;
}

interface DeliverOptions {
  readonly signal: AbortSignal;
  /** The W3C trace context of a delivery whose trace is sampled, for connectors whose requests can carry one. */
  readonly traceparentOf?: (delivery: Delivery) => string | undefined;
}

type CallOptions = Pick<DeliverOptions, 'signal'>;

/** Bounds on one request to a destination. A batch ends where the first of them is reached. */
export interface BatchLimits {
  /** Number of deliveries, at least 1. */
  readonly events: number;
  /** Bytes of the deliveries as JSON, where the destination has such a bound; a single delivery may be larger. */
  readonly bytes?: number;
  /** How long the first delivery of a batch may wait for others, ms. Absent: it does not wait. */
  readonly ms?: number;
}

/**
 * The result of a connection test. `reason` is shown to users: short, no secrets. So is `request`: what was sent, as text,
 * with secrets masked, where the connector composes it itself.
 */
export type ConnectionTest = Answered & { readonly request?: string } & (
    | { readonly ok: true }
    | { readonly ok: false; readonly reason: string }
  );

/**
 * The client of one type of destination.
 *
 * Promises:
 * - `deliver` returns a result for every delivery, in order. Neither it nor `test` throws for anything that a
 *   destination does.
 * - It repeats nothing by itself, except the parts of a batch that the destination refused as a whole, and sends the
 *   delivery's id as idempotency key wherever the destination supports one.
 * - It accepts more than `batchLimits` allows, and then makes several requests.
 * - Both settle soon after their signal is aborted; requests under way then have an unknown result, which counts as a
 *   retry.
 *
 * Must not: keep a delivery after its result; connect without the egress guard; let one destination wait for another.
 */
export interface Connector {
  /** Bounds on one call. Called before every request: cheap, and no I/O. */
  batchLimits(destination: ConnectorDestination): BatchLimits;
  deliver(
    destination: ConnectorDestination,
    deliveries: readonly Delivery[],
    options: DeliverOptions,
  ): Promise<readonly DeliveryResult[]>;
  /**
   * The connection test: connects as `deliver` would and, as far as the destination allows, checks whether it would
   * accept deliveries. It sends no event, and leaves nothing that could be taken for one.
   */
  test(destination: ConnectorDestination, options: DeliverOptions): Promise<ConnectionTest>;
  /**
   * What an event would become, by subscription; absent where the type has none. Nothing is sent, and no secret is in the
   * result. Rejects with `InvalidInput` for settings that are not valid, and as `deliver` fails when it is aborted.
   */
  preview?(
    destination: ConnectorDestination,
    event: CanonicalEvent,
    options: CallOptions,
  ): Promise<readonly SubscriptionPreview[]>;
  /** How many of the events meet the trigger of each subscription, in the order of `preview`. Rejects as it does. */
  countMatches?(
    destination: ConnectorDestination,
    events: readonly CanonicalEvent[],
    options: Pick<DeliverOptions, 'signal'>,
  ): Promise<readonly number[]>;
  /**
   * Sends one event as `deliver` does, under its own id: a destination that recognizes repeats does not take it twice. Returns
   * the result, and each request with its response. Absent where the type has no subscriptions.
   */
  deliverTrial?(
    destination: ConnectorDestination,
    event: CanonicalEvent,
    options: Pick<DeliverOptions, 'signal'>,
  ): Promise<{ readonly result: DeliveryResult; readonly requests: readonly AnsweredRequest[] }>;
  /*
   * Calls beside deliveries; each is absent where the type has none of the kind. They throw for nothing that a vendor does,
   * are bounded in time as a delivery is, and repeat nothing by themselves.
   */
  choices?(destination: ConnectorDestination, query: FieldQuery, options: CallOptions): Promise<FieldChoices>;
  /** Runs a hook of an action. Repeated, one without `outputs` may create a second time. */
  runHook?(destination: ConnectorDestination, run: HookRun, options: CallOptions): Promise<HookResult>;
  /**
   * Asks the vendor to delete people, one after the other; by the ids that `deletes` of the description names. A result for
   * each, in order; a repetition is harmless.
   */
  deletePeople?(
    destination: ConnectorDestination,
    people: readonly PersonIdentity[],
    options: CallOptions,
  ): Promise<readonly PersonDeletion[]>;
  /** Creates an audience; one that was not answered may have been created. */
  createAudience?(
    destination: ConnectorDestination,
    audience: NewAudience,
    options: CallOptions,
  ): Promise<AudienceResult>;
  /** Whether an audience is still there. */
  findAudience?(
    destination: ConnectorDestination,
    audience: KnownAudience,
    options: CallOptions,
  ): Promise<AudienceResult>;
  /** Releases connections and files. Idempotent. */
  close(): Promise<void>;
}

/** A predefined mapping of a connector. */
interface ConnectorPreset {
  readonly name: string;
  /** The events that it applies to, in the connector's own syntax. */
  readonly subscribe: string;
  /** The action that it performs. */
  readonly action: string;
}

/**
 * Rotation of a signing secret: the old one signs beside the new one for a while, so that receivers can change over.
 */
interface SecretRotation {
  /** The secret setting that holds the old secrets. They only sign, so a change of the receiving party keeps them. */
  readonly previous: string;
  /**
   * The settings to store when a user changes `before` to `after`: both with plain secrets, `before` without those
   * that cannot be opened any more. `now` is epoch ms.
   */
  rotated(before: JsonObject, after: JsonObject, now: number): JsonObject;
}

/** The description of a type of destination. */
export interface ConnectorDescription {
  readonly type: string;
  readonly title: string;
  /** What the service is, where there are many kinds. */
  readonly category?: string;
  /** The day on which its requests were compared with the document of the vendor, where that was done. */
  readonly compared?: string | undefined;
  readonly description: string;
  /**
   * JSON Schema (draft 2020-12) of `settings` as users write them, from which a form can be built: properties are in
   * reading order, each with `title`, `description` and optionally `default`; secrets are `writeOnly`, and `examples`
   * show typical values.
   */
  readonly settingsSchema: JsonObject;
  /** Names of the `writeOnly` settings, which are sealed at rest and never returned by the API. */
  readonly secrets: readonly string[];
  /**
   * Settings that decide neither which party receives the secrets nor how safely they travel. When any other setting
   * changes, the user must state the kept secrets again, except generated ones, which only sign.
   */
  readonly harmless: readonly string[];
  /** Settings of which only a change to a less safe value exposes the secrets: all their values, the safest first. */
  readonly safestFirst?: Readonly<Record<string, readonly Json[]>>;
  /** Bound on the deliveries of one request, whatever the settings; 1: no batches. */
  readonly maxBatch: number;
  /** Whether the connection test asks the destination; otherwise it succeeds without a check. */
  readonly hasTest: boolean;
  /** Whether deliveries are kept on the disk of the process that delivers: their bytes count for the workspace. */
  readonly storesHere?: true;
  /** The stage `load` fills it: it gets no deliveries. */
  readonly isWarehouse?: true;
  /** The name of the service that its destinations are connected with, by a person (OAuth 2). Absent: none. */
  readonly service?: string;
  /**
   * A setting that follows from the destination's name where users state none: it is stored at creation and kept from then
   * on, so that a rename leads nowhere else.
   */
  readonly named?: { readonly setting: string; valueOf(name: string): string };
  /** Predefined mappings that settings choose from, where the connector has them. */
  readonly presets?: readonly ConnectorPreset[];
  /** Actions that settings may map events to, where the connector has them. */
  readonly actions?: readonly string[];
  /** The ids of people that it deletes at the vendor; absent where it deletes nobody. */
  readonly deletes?: readonly (keyof PersonIdentity)[];
  /** Whether it creates audiences at the vendor. */
  readonly hasAudiences?: true;
  /** What only forms need. Once the type is prepared. */
  details?(): {
    /** With their fields. */
    readonly actions: readonly DestinationAction[];
    /** Those of a destination that is created without any. */
    readonly subscriptions: readonly DefaultSubscription[];
    readonly audienceFields: readonly ActionField[];
    /** `settingsSchema` with the words of the vendor's own form. */
    readonly settingsSchema: JsonObject;
  };
  /**
   * Generates absent settings at creation, e.g. a signing secret, which is shown once. Returns all settings, the
   * given ones unchanged. `random(n)` returns n random bytes.
   */
  generate?(settings: JsonObject, random: (bytes: number) => Uint8Array): JsonObject;
  /** The settings to store where `after` replaces `before`, both without secrets. Default: `after`. */
  replaced?(before: JsonObject, after: JsonObject): JsonObject;
  /** Absent for types without a rotated signing secret. */
  readonly rotation?: SecretRotation;
  /** Checks beyond the schema: one message per fault, empty when valid. Paths are JSON pointers below `settings`. */
  check?(settings: JsonObject): readonly { readonly path: string; readonly message: string }[];
}

/** The registered types of destinations: descriptions for the gateway, connectors for deliver. */
export interface ConnectorCatalog {
  readonly descriptions: ReadonlyMap<string, ConnectorDescription>;
  /**
   * Loads what `details`, `generate` and `check` of a description read: to be awaited before they are called. Resolves at once
   * for most types, and after the first call. Rejects with `Unavailable`.
   */
  prepare(type: string): Promise<void>;
  /** The connector of a type, created at first use. Undefined for an unknown type and for a warehouse. */
  connector(type: string): Connector | undefined;
  /** Opens a warehouse, which the caller closes. Undefined for a type that is none. */
  warehouse(type: string, destination: ConnectorDestination): Warehouse | undefined;
  close(): Promise<void>;
}

/** A change of settings after which a stored secret goes to another party or travels less safely. */
interface Exposure {
  readonly setting: string;
  readonly change: 'another' | 'weaker';
}

/**
 * The changes between two versions of settings that expose stored secrets, in the order of the schema. An absent
 * setting has the default of the schema. A sequence of changes without exposure never leads to settings that one step
 * would have exposed.
 */
export function exposuresOf(
  before: JsonObject,
  after: JsonObject,
  description: Pick<ConnectorDescription, 'settingsSchema' | 'secrets' | 'harmless' | 'safestFirst'>,
): readonly Exposure[] {
  const { settingsSchema, secrets, harmless, safestFirst = {} } = description;
  const properties = Object.entries(objectIn(settingsSchema.properties));
  return properties.flatMap(([setting, schema]): Exposure[] => {
    if (secrets.includes(setting) || harmless.includes(setting)) return [];
    const [was, is] = [before, after].map((settings) => settings[setting] ?? objectIn(schema).default);
    if (isDeepStrictEqual(was, is)) return [];
    const [rankBefore, rankAfter] = [was, is].map((value) => rankOf(value, safestFirst[setting]));
    if (rankBefore === undefined || rankAfter === undefined) return [{ setting, change: 'another' }];
    return rankAfter > rankBefore ? [{ setting, change: 'weaker' }] : [];
  });
}

/** Undefined for an undeclared value. */
function rankOf(value: Json | undefined, safestFirst: readonly Json[] = []): number | undefined {
  const rank = safestFirst.findIndex((known) => isDeepStrictEqual(known, value));
  return rank === -1 ? undefined : rank;
}
