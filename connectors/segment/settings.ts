import { type ConnectorDescription, deeperThan, isObject, type JsonObject } from '@tributary/core';
import { createSettingsReader, type SettingsFault, secretNames } from '../settings.ts';
import type { Definition } from './definitions.ts';
import type { Subscription } from './messages.ts';
import { subscriptionFault } from './subscription.ts';

/** The settings as users write them: the destination's own, and which of its actions run for which events. */
function settingsSchemaOf({ properties, required, presets, actions }: Definition): JsonObject {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    required: [...required],
    additionalProperties: false,
    properties: {
      ...properties,
      presets: {
        type: 'array',
        title: 'Presets',
        description: 'The presets that run, each for the events it is made for. Absent: all of them.',
        items: { type: 'string', enum: presets.map(({ name }) => name) },
        uniqueItems: true,
      },
      actions: {
        type: 'array',
        title: 'Actions',
        description:
          'Further actions of the destination, each with a mapping of your own: `{ "action", "subscribe", "mapping" }`. `subscribe` says for which events, for example `type = "track" and event = "Order Placed"`; `mapping` is in the form of Segment\'s mapping kit.',
        maxItems: 50,
        items: {
          type: 'object',
          required: ['action', 'subscribe'],
          additionalProperties: false,
          properties: {
            action: { type: 'string', enum: [...actions] },
            subscribe: { type: 'string', minLength: 1, maxLength: 2_000 },
            mapping: { type: 'object' },
          },
        },
      },
    },
  };
}

interface StatedSettings {
  readonly presets?: readonly string[];
  readonly actions?: readonly {
    readonly action: string;
    readonly subscribe: string;
    readonly mapping?: JsonObject;
  }[];
  readonly [name: string]: unknown;
}

/** The settings as the connector uses them. */
export interface SegmentSettings {
  /** The settings of the pack. */
  readonly own: JsonObject;
  /** Names of presets; undefined: all. */
  readonly presets: readonly string[] | undefined;
  readonly actions: readonly Subscription[];
  /** Texts to mask. */
  readonly secrets: readonly string[];
}

export function createSegmentReader(
  definition: Definition,
): (settings: JsonObject) => SegmentSettings | undefined {
  const schema = settingsSchemaOf(definition);
  const read = createSettingsReader<StatedSettings & JsonObject>(schema, mappingFaults);
  const secretFields = secretNames(schema);
  return (settings) => {
    const stated = read(settings);
    if (stated === undefined) return undefined;
    const { presets, actions = [], ...own } = stated;
    return {
      own,
      presets,
      actions: actions.map(({ action, subscribe, mapping = {} }) => ({
        name: action,
        subscribe,
        partnerAction: action,
        mapping,
      })),
      secrets: secretFields.map((name) => String(own[name] ?? '')).filter((text) => text !== ''),
    };
  };
}

/** Maximum size and nesting of a mapping, which is evaluated for each event. */
const MAX_BYTES = 16 * 1_024;
const MAX_DEPTH = 12;

/** The faults of settings that are saved. Those that 0.2.0 took may have subscriptions that take no event. */
function settingsFaults(settings: JsonObject): readonly SettingsFault[] {
  const { actions } = settings;
  const subscriptions = (Array.isArray(actions) ? actions : []).flatMap((action, index): SettingsFault[] => {
    const subscribe = isObject(action) ? action.subscribe : undefined;
    const message = typeof subscribe === 'string' ? subscriptionFault(subscribe) : undefined;
    return message === undefined ? [] : [{ path: `/actions/${index}/subscribe`, message }];
  });
  return [...subscriptions, ...mappingFaults(settings)];
}

/** Checks of the mappings that JSON Schema cannot express. Paths are JSON pointers below the settings. */
export function mappingFaults({ actions }: JsonObject): readonly SettingsFault[] {
  if (!Array.isArray(actions)) return [];
  return actions.flatMap((action, index): SettingsFault[] => {
    const mapping = isObject(action) ? action.mapping : undefined;
    const path = `/actions/${index}/mapping`;
    if (mapping === undefined) return [];
    if (deeperThan(mapping, MAX_DEPTH))
      return [{ path, message: `must not be nested deeper than ${MAX_DEPTH} levels` }];
    if (Buffer.byteLength(JSON.stringify(mapping)) > MAX_BYTES)
      return [{ path, message: `must not be longer than ${MAX_BYTES} bytes` }];
    return [];
  });
}

/** Settings of any destination of the pack that do not select a host of the vendor. */
const HARMLESS_SETTINGS = [
  'accountId',
  'actions',
  'app_id',
  'geoip_disable',
  'historical_migration',
  'presets',
  'project_id',
  'pushwooshAppCode',
  'sourceName',
  'strictMode',
  'userId',
];

const NO_TEST =
  'The pack cannot test its settings: the connection test is always `ok`, and errors show with the first delivery.';

export function describeDestination(definition: Definition): ConnectorDescription {
  const { type, title, actions } = definition;
  // The pack lists presets of actions that it has for browsers alone; settings of 0.2.0 may name them.
  const presets = definition.presets.filter(({ action }) => actions.includes(action));
  const settingsSchema = settingsSchemaOf(definition);
  const rows = presets.map(({ name, subscribe, action }) => `- ${name} (\`${action}\`): \`${subscribe}\``);
  return {
    type,
    title: `${title} (Segment)`,
    description: [
      `Sends each event to ${title} by its destination in Segment's pack of actions (\`@segment/action-destinations\`), see [Destinations of the Segment pack](#destinations-of-the-segment-pack). Its presets:`,
      rows.join('\n'),
      ...(definition.hasTest ? [] : [NO_TEST]),
    ].join('\n\n'),
    settingsSchema,
    secrets: secretNames(settingsSchema),
    harmless: HARMLESS_SETTINGS,
    maxBatch: 1,
    hasTest: definition.hasTest,
    presets,
    actions,
    check: settingsFaults,
  };
}
