import { isDeepStrictEqual } from 'node:util';
import type { Json, JsonObject } from '../event/event.ts';
import type { Delivery } from './delivery.ts';

/** What became of one item. `reason` is shown to people: short, no secrets. */
export type DeliveryResult =
  | { readonly outcome: 'delivered'; readonly status?: number; readonly response?: string }
  | {
      readonly outcome: 'retry';
      readonly reason: string;
      readonly status?: number;
      readonly response?: string;
      /** What the destination asked for (`Retry-After`), ms. */
      readonly afterMs?: number;
      /** The connection was reset before an answer: one attempt more at once is worth it. */
      readonly reset?: boolean;
    }
  | {
      readonly outcome: 'dead';
      readonly reason: string;
      readonly status?: number;
      readonly response?: string;
    };

/** A configured place, as a connector sees it. Settings hold unsealed secrets: never log them. */
export interface ConnectorDestination {
  readonly id: string;
  readonly workspaceId: string;
  readonly version: number;
  readonly settings: JsonObject;
}

export interface DeliverOptions {
  readonly signal: AbortSignal;
}

/** What one call to a destination is to hold. A batch is cut where the first of them is reached. */
export interface BatchLimits {
  /** Deliveries, at least 1. */
  readonly events: number;
  /** Bytes of the deliveries as JSON, where the place has such a bound; one alone may be larger. */
  readonly bytes?: number;
  /** How long the first of a batch may wait for others, ms. Absent: what waits goes at once. */
  readonly ms?: number;
}

/** Whether a place is there and takes what these settings say. `reason` is shown to people: short, no secrets. */
export type ConnectionTest =
  | { readonly ok: true; readonly status?: number; readonly response?: string }
  | {
      readonly ok: false;
      readonly reason: string;
      readonly status?: number;
      readonly response?: string;
    };

/**
 * Knows how to speak to one kind of place.
 *
 * Promises: `deliver` answers for every delivery, in order; neither it nor `test` ever throws for what a destination
 * does. It repeats nothing by itself, save the parts of a batch that the place refused as a whole, and sends the
 * delivery's id as idempotency key wherever the place takes one. It takes more than `batchLimits` says too, in as many
 * requests as that needs. Both settle soon after their signal is aborted; what was under way is then unknown, which is
 * a retry.
 *
 * Must not: keep a delivery after it has answered for it; connect to anything by another way than the egress guard's;
 * let a destination wait for what another destination does.
 */
export interface Connector {
  /** What one call is to hold at most. Asked for before every call: cheap, and no I/O. */
  batchLimits(destination: ConnectorDestination): BatchLimits;
  deliver(
    destination: ConnectorDestination,
    deliveries: readonly Delivery[],
    options: DeliverOptions,
  ): Promise<readonly DeliveryResult[]>;
  /**
   * The connection test: reaches the place as `deliver` would, and as far as the place lets one ask finds out whether
   * it would take deliveries. Brings no event, and leaves nothing that a reader of the place could take for one.
   */
  test(destination: ConnectorDestination, options: DeliverOptions): Promise<ConnectionTest>;
  /** Releases connections and files. Idempotent. */
  close(): Promise<void>;
}

/** A ready-made part of what a connector does. */
export interface ConnectorPreset {
  readonly name: string;
  /** For which events, in the connector's own words. */
  readonly subscribe: string;
  /** Which of its actions it takes. */
  readonly action: string;
}

/** A signing secret that was replaced signs beside the new one for a while, so that receivers can change over. */
export interface SecretRotation {
  /** The secret setting that holds the replaced ones. They only sign, so they are kept for whatever party. */
  readonly previous: string;
  /**
   * The settings to be stored when `before` becomes `after`, which a user stated: both with their secrets in clear,
   * `before` without what cannot be opened any more. `now` is epoch ms.
   */
  rotated(before: JsonObject, after: JsonObject, now: number): JsonObject;
}

/** What a kind of destination tells about itself. */
export interface ConnectorDescription {
  readonly type: string;
  readonly title: string;
  readonly description: string;
  /**
   * JSON Schema (draft 2020-12) of `settings` as a user writes them. A form can be drawn from it: an object whose
   * properties stand in reading order, each with `title`, `description` and, where there is one, `default`; secrets are
   * `writeOnly`, and `examples` show what a field looks like.
   */
  readonly settingsSchema: JsonObject;
  /** Names of settings that are sealed at rest and never leave through the API again: the `writeOnly` ones. */
  readonly secrets: readonly string[];
  /**
   * Settings that decide which party receives the secrets, and how safely they travel. Where one of them changes to
   * another party or to a weaker value, secrets that the change would keep must be stated again, but for generated
   * ones, which only sign.
   */
  readonly exposing: readonly ExposingSetting[];
  /** Deliveries that one request to the place carries at most, however its settings are; 1: each goes alone. */
  readonly maxBatch: number;
  /** Whether the connection test asks the place whether it would take deliveries; where not, it is good unseen. */
  readonly hasTest: boolean;
  /** What is sent of which events, by name, where the connector has such parts that settings choose from. */
  readonly presets?: readonly ConnectorPreset[];
  /** Names of the actions that settings may map events to by themselves, where the connector has such. */
  readonly actions?: readonly string[];
  /**
   * Settings made at creation when absent, e.g. a signing secret; shown once. Gives all settings back, those that were
   * there unchanged. `random(n)` gives n random bytes.
   */
  generate?(settings: JsonObject, random: (bytes: number) => Uint8Array): JsonObject;
  /** Absent where no signing secret of the kind is rotated. */
  readonly rotation?: SecretRotation;
  /** What the schema cannot say: one message per fault, empty when fine. Paths are JSON pointers below `settings`. */
  check?(settings: JsonObject): readonly { readonly path: string; readonly message: string }[];
}

/** The kinds of destination there are, for the gateway (descriptions) and for deliver (connectors). */
export interface ConnectorCatalog {
  readonly descriptions: ReadonlyMap<string, ConnectorDescription>;
  /** The connector of a type, made at first use. Undefined for an unknown type. */
  connector(type: string): Connector | undefined;
  close(): Promise<void>;
}

/**
 * A setting that decides which party receives the secrets stored beside it, and how safely they travel. A connector
 * declares all of its settings that do.
 */
export interface ExposingSetting {
  readonly setting: string;
  /**
   * All its values, the safest first: only a change to a later one exposes the secrets. Absent: every other value may
   * stand for another party.
   */
  readonly safestFirst?: readonly Json[];
}

/** Settings of which every other value may send the secrets to another party. */
export function namesParty(...settings: readonly string[]): readonly ExposingSetting[] {
  return settings.map((setting) => ({ setting }));
}

/** A setting that decides how safely the secrets travel. */
export function protects(setting: string, ...safestFirst: readonly Json[]): ExposingSetting {
  return { setting, safestFirst };
}

/** One change of settings after which a stored secret goes to another party, or in a less safe way. */
export interface Exposure {
  readonly setting: string;
  readonly change: 'another' | 'weaker';
}

/**
 * The changes between two versions of settings that expose stored secrets, in the order in which the connector declares
 * them. A setting that is absent has the default of the schema. No sequence of changes without an exposure leads to
 * settings that would have been one in a single step.
 */
export function exposuresOf(
  before: JsonObject,
  after: JsonObject,
  description: { readonly exposing: readonly ExposingSetting[]; readonly settingsSchema: JsonObject },
): readonly Exposure[] {
  const { properties } = description.settingsSchema as {
    readonly properties?: Readonly<Record<string, JsonObject>>;
  };
  const valueIn = (settings: JsonObject, name: string): Json | undefined =>
    settings[name] ?? properties?.[name]?.default;
  return description.exposing.flatMap(({ setting, safestFirst }): Exposure[] => {
    const [was, is] = [valueIn(before, setting), valueIn(after, setting)];
    if (isDeepStrictEqual(was, is)) return [];
    const [rankBefore, rankAfter] = [was, is].map((value) => rankOf(value, safestFirst));
    if (rankBefore === undefined || rankAfter === undefined) return [{ setting, change: 'another' }];
    return rankAfter > rankBefore ? [{ setting, change: 'weaker' }] : [];
  });
}

/** Undefined for a value that the order does not know. */
function rankOf(value: Json | undefined, safestFirst: readonly Json[] = []): number | undefined {
  const rank = safestFirst.findIndex((known) => isDeepStrictEqual(known, value));
  return rank === -1 ? undefined : rank;
}
