import { type ConnectorDescription, type JsonObject, warehouseName } from '@tributary/core';

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

/** The type of these settings. */
export interface LoadSettings {
  readonly load_every: string;
  readonly max_event_tables: number;
}

/** What a description says of the setting that names the place of the tables, after the destination where users state none. */
export function namedAfterDestination(setting: string, length: number) {
  return {
    setting,
    valueOf: (name: string) => warehouseName([name], length),
  } satisfies ConnectorDescription['named'];
}
