import {
  type ConnectorDescription,
  type ConnectorDestination,
  type JsonObject,
  type Warehouse,
  type WarehouseLimits,
  warehouseName,
} from '@tributary/core';
import type { ConnectorContext, WarehouseKind } from '../kind.ts';
import { createSettingsReader, secretNames } from '../settings.ts';

/** Settings of every kind of warehouse. */
export const loadFields = {
  load_every: {
    type: 'string',
    title: 'Load every',
    description: 'How often events are loaded: `10s` to `24h`.',
    default: '5m',
    pattern: '^(?:[1-9][0-9]{1,4}s|[1-9][0-9]{0,3}m|(?:1[0-9]|2[0-4]|[1-9])h)$',
  },
  max_event_tables: {
    type: 'integer',
    title: 'Tables of events',
    description:
      'Event names with a table of their own at most; the others are in `tracks`, with their properties as JSON.',
    minimum: 0,
    maximum: 2_000,
    default: 500,
  },
} as const satisfies JsonObject;

/** The description of the setting that names the place of the tables: a schema, a database or a dataset. */
export function placeText(what: string): string {
  return `The ${what} of the tables, made when it is missing. Default: the first name of the destination in snake case. No other destination may load into it.`;
}

/** What is known of a kind of warehouse before its driver is loaded: the `settings.ts` of each has one. */
export interface WarehouseSettings<Settings> {
  readonly description: WarehouseKind['description'];
  readonly limits: WarehouseLimits;
  /** Undefined for settings that are not valid. */
  read(settings: JsonObject): Settings | undefined;
  /** The place of the tables, by the setting or by the name of the destination; '' for a kind without such a setting. */
  placeOf(destination: ConnectorDestination): string;
}

interface SettingsOfKind
  extends Pick<
    ConnectorDescription,
    'type' | 'title' | 'description' | 'settingsSchema' | 'harmless' | 'safestFirst' | 'check'
  > {
  readonly limits: WarehouseLimits;
  /** The setting that names the place of the tables, and the letters of a name at most. */
  readonly place?: { readonly setting: string; readonly length: number };
}

/** `Settings` is the TypeScript type of the schema. */
export function warehouseSettings<Settings>(kind: SettingsOfKind): WarehouseSettings<Settings> {
  const { limits, place, ...about } = kind;
  const named = place && {
    setting: place.setting,
    valueOf: (name: string) => warehouseName([name], place.length),
  };
  return {
    limits,
    description: {
      ...about,
      secrets: secretNames(about.settingsSchema),
      ...(named && { named }),
      maxBatch: 1,
      hasTest: true,
      isWarehouse: true,
    },
    read: createSettingsReader<Settings>(about.settingsSchema, about.check),
    // A destination without the setting was made before it was stored, and not changed since.
    placeOf: ({ id, name = id, settings }) =>
      named === undefined ? '' : String(settings[named.setting] ?? named.valueOf(name)),
  };
}

/** A warehouse without what is known before its driver is loaded. */
export type WarehouseEngine = Omit<Warehouse, 'limits' | 'storesHere'>;

/** The destination that an engine loads. */
export interface LoadedDestination {
  readonly id: string;
  readonly workspaceId: string;
  /** See `WarehouseSettings.placeOf`. */
  readonly place: string;
}

/** What the `engine.ts` of each kind exports as `open`. */
export type Open<Settings> = (
  context: ConnectorContext,
  settings: Settings,
  destination: LoadedDestination,
) => WarehouseEngine | Promise<WarehouseEngine>;
