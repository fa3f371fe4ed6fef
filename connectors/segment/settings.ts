import {
  type ConnectorDescription,
  type DefaultSubscription,
  type DestinationAction,
  deeperThan,
  isObject,
  type Json,
  type JsonObject,
} from '@tributary/core';
import { createSettingsReader, type SettingsFault, secretNames } from '../settings.ts';
import type { Definition } from './definitions.ts';
import { type Details, detailsOf } from './details.ts';
import { ANY_HOST } from './hosts.ts';
import { mappingFaults } from './mapping.ts';
import type { Subscription } from './messages.ts';
import { subscriptionFault } from './subscription.ts';

/**
 * The destinations of release 0.2.0, whose settings have `presets` and `actions` in place of `subscriptions`. Settings that
 * it stored are read as they were: what they select does not change until somebody states subscriptions.
 */
export const OF_0_2_0 = [
  'amplitude',
  'braze',
  'canny-functions',
  'customerio',
  'drip',
  'encharge',
  'iterable',
  'mixpanel',
  'outfunnel',
  'posthog',
  'pushwoosh',
  'schematic',
  'usermaven',
] as const;
const WITH_PRESETS: ReadonlySet<string> = new Set(OF_0_2_0);

/** Subscriptions of a destination. */
const MAX_SUBSCRIPTIONS = 100;

/** The settings as users write them: the destination's own, and which of its actions run for which events. */
function settingsSchemaOf(
  { destination, properties, required, presets, actions }: Definition,
  words: Details['settings'] = {},
): JsonObject {
  const own = Object.entries(properties).map(([name, schema]) => [
    name,
    { title: titleOf(name), ...schema, ...words[name] },
  ]);
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    required: [...required],
    additionalProperties: false,
    properties: {
      ...Object.fromEntries(own),
      subscriptions: {
        type: 'array',
        title: 'Subscriptions',
        description:
          'Which events become which actions, each with its mapping. Absent at the creation: those of the presets are written out here. Each that is enabled and whose trigger an event meets makes a request of it.',
        maxItems: MAX_SUBSCRIPTIONS,
        items: {
          type: 'object',
          required: ['action', 'trigger'],
          additionalProperties: false,
          properties: {
            name: { type: 'string', title: 'Name', maxLength: 200 },
            action: { type: 'string', title: 'Action', enum: [...actions] },
            trigger: {
              type: 'string',
              title: 'Trigger',
              description: 'For which events, such as `type = "track" and event = "Order Placed"`.',
              minLength: 1,
              maxLength: 4_000,
            },
            mapping: {
              type: 'object',
              title: 'Mapping',
              description: "The fields of the action, in the form of Segment's mapping kit.",
            },
            enabled: {
              type: 'boolean',
              title: 'Enabled',
              description: 'One that is not enabled is kept as a draft.',
              default: true,
            },
          },
        },
      },
      ...(WITH_PRESETS.has(destination) ? propertiesOfPresets(presets, actions) : {}),
    },
  };
}

/** A title by the name of a setting, for lists: `apiKey` and `api_key` are both "Api key". */
function titleOf(name: string): string {
  const words = name.replace(/([a-z0-9])([A-Z])/g, '$1 $2').split(/[\s_-]+/);
  const text = words.map((word) => (/^[A-Z]{2,}$/.test(word) ? word : word.toLowerCase())).join(' ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function propertiesOfPresets(presets: Definition['presets'], actions: readonly string[]): JsonObject {
  return {
    presets: {
      type: 'array',
      title: 'Presets',
      description: 'Earlier form, without `subscriptions`: the presets that run. Absent: all of them.',
      deprecated: true,
      items: { type: 'string', enum: presets.map(({ name }) => name) },
      uniqueItems: true,
    },
    actions: {
      type: 'array',
      title: 'Actions',
      description:
        'Earlier form, without `subscriptions`: further actions, each `{ "action", "subscribe", "mapping" }`.',
      deprecated: true,
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
  };
}

interface StatedSubscription {
  readonly name?: string;
  readonly action: string;
  readonly trigger: string;
  readonly mapping?: JsonObject;
  readonly enabled?: boolean;
}

interface StatedSettings {
  readonly subscriptions?: readonly StatedSubscription[];
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
  /** Presets of the pack to run, each with the mapping that it has there. */
  readonly presets: readonly string[];
  readonly subscriptions: readonly Subscription[];
  /** Texts to mask. */
  readonly secrets: readonly string[];
}

export function createSegmentReader(
  definition: Definition,
): (settings: JsonObject) => SegmentSettings | undefined {
  const schema = settingsSchemaOf(definition);
  const read = createSettingsReader<StatedSettings & JsonObject>(schema, sizeFaults);
  const secretFields = secretNames(schema);
  const isEarlier = WITH_PRESETS.has(definition.destination);
  const known = definition.presets.map(({ name }) => name);
  return (settings) => {
    const stated = read(settings);
    if (stated === undefined) return undefined;
    const { subscriptions, presets, actions = [], ...own } = stated;
    return {
      own,
      presets: subscriptions === undefined && isEarlier ? (presets ?? known) : [],
      subscriptions:
        subscriptions?.flatMap(subscriptionOf) ??
        actions.map(({ action, subscribe, mapping = {} }) => ({
          name: action,
          subscribe,
          partnerAction: action,
          mapping,
        })),
      secrets: secretFields.map((name) => String(own[name] ?? '')).filter((text) => text !== ''),
    };
  };
}

function subscriptionOf({ name, action, trigger, mapping = {}, enabled = true }: StatedSubscription) {
  return enabled ? [{ name: name ?? action, subscribe: trigger, partnerAction: action, mapping }] : [];
}

/** Maximum size and nesting of a mapping, which is evaluated for each event. */
const MAX_BYTES = 16 * 1_024;
const MAX_DEPTH = 12;

/**
 * The faults of settings that are saved, beyond the schema. Those that 0.2.0 stored may have subscriptions that take no
 * event, so deliveries check `sizeFaults` alone.
 */
function settingsFaults(definition: Definition, settings: JsonObject): readonly SettingsFault[] {
  const { subscriptions, presets, actions } = settings;
  const sizes = sizeFaults(settings);
  if (sizes.length > 0) return sizes;
  if (!Array.isArray(subscriptions))
    return (Array.isArray(actions) ? actions : []).flatMap((action, at) =>
      triggerFaults(isObject(action) ? action.subscribe : undefined, `/actions/${at}/subscribe`),
    );
  if (presets !== undefined || actions !== undefined) {
    const path = presets === undefined ? '/actions' : '/presets';
    return [{ path, message: 'is the earlier form of subscriptions: state one of both' }];
  }
  const details = detailsOf(definition.destination);
  return subscriptions.flatMap((subscription, at) =>
    isObject(subscription)
      ? subscriptionFaults(details, subscription).map(({ path, message }) => ({
          path: `/subscriptions/${at}${path}`,
          message,
        }))
      : [],
  );
}

/** The faults of a subscription. A draft, which is not enabled, may lack what it requires. */
function subscriptionFaults(details: Details, subscription: JsonObject): readonly SettingsFault[] {
  const { action: name, trigger, mapping, enabled } = subscription;
  // The triggers of the pack run as they are, whatever the rules for others.
  const isOfPack = [...details.presets, ...details.actions].some((one) => one.trigger === trigger);
  const ofTrigger = isOfPack ? [] : triggerFaults(trigger, '/trigger');
  const action = details.actions.find((one) => one.action === name);
  if (action === undefined)
    return [...ofTrigger, { path: '/action', message: 'is no action of the destination' }];
  return enabled === false ? ofTrigger : [...ofTrigger, ...faultsOfMapping(action, mapping)];
}

function faultsOfMapping(action: DestinationAction, mapping: unknown): readonly SettingsFault[] {
  return mappingFaults(action, isObject(mapping) ? mapping : {}).map(({ path, message }) => ({
    path: `/mapping${path}`,
    message,
  }));
}

function triggerFaults(trigger: unknown, path: string): readonly SettingsFault[] {
  const message = typeof trigger === 'string' ? subscriptionFault(trigger) : undefined;
  return message === undefined ? [] : [{ path, message }];
}

/** Mappings that are too large to be evaluated for each event. Paths are JSON pointers below the settings. */
export function sizeFaults({ subscriptions, actions }: JsonObject): readonly SettingsFault[] {
  const lists = { subscriptions, actions };
  return Object.entries(lists).flatMap(([name, list]) =>
    (Array.isArray(list) ? list : []).flatMap((one, at): SettingsFault[] => {
      const mapping = isObject(one) ? one.mapping : undefined;
      const path = `/${name}/${at}/mapping`;
      if (mapping === undefined) return [];
      if (deeperThan(mapping, MAX_DEPTH))
        return [{ path, message: `must not be nested deeper than ${MAX_DEPTH} levels` }];
      if (Buffer.byteLength(JSON.stringify(mapping)) > MAX_BYTES)
        return [{ path, message: `must not be longer than ${MAX_BYTES} bytes` }];
      return [];
    }),
  );
}

/** Settings that state no subscriptions get those that are written out of the definition. */
function withSubscriptions(definition: Definition, settings: JsonObject): JsonObject {
  const { subscriptions, presets, actions } = settings;
  if (subscriptions !== undefined || presets !== undefined || actions !== undefined) return settings;
  const written = defaultSubscriptions(detailsOf(definition.destination));
  return { ...settings, subscriptions: written.map((subscription) => ({ ...subscription })) };
}

/** Without any subscription left a destination has none; it does not go back to the presets of the earlier form. */
function keptForm(before: JsonObject, after: JsonObject): JsonObject {
  const isStated = SELECTIONS.some((name) => after[name] !== undefined);
  return before.subscriptions === undefined || isStated ? after : { ...after, subscriptions: [] };
}

/**
 * The subscriptions of a new destination: the presets with their mappings, or a draft of each action where there are none. A
 * preset that cannot run as it is becomes a draft too, since a field that it requires is for the user to fill.
 */
function defaultSubscriptions(details: Details): readonly DefaultSubscription[] {
  if (details.presets.length > 0)
    return details.presets.map((preset) => ({
      ...preset,
      enabled: subscriptionFaults(details, { ...preset }).length === 0,
    }));
  return details.actions.map(({ action, title, trigger = 'type = "track"', fields }) => ({
    name: title,
    action,
    trigger,
    mapping: Object.fromEntries(
      fields.flatMap((field): [string, Json][] =>
        field.default === undefined ? [] : [[field.field, field.default]],
      ),
    ),
    enabled: false,
  }));
}

/** Settings of destinations of the pack that do not select a host of the vendor. */
const HARMLESS_SETTINGS = [
  'accountId',
  'app_id',
  'geoip_disable',
  'historical_migration',
  'project_id',
  'pushwooshAppCode',
  'sourceName',
  'strictMode',
  'userId',
];
const SELECTIONS = ['actions', 'presets', 'subscriptions'];

/** Subscriptions select no host either, unless a mapping states the URL. */
function harmlessSettings({ hosts }: Definition): readonly string[] {
  const own = HARMLESS_SETTINGS.filter((name) => !hosts.some((host) => host.includes(`{${name}}`)));
  return hosts.includes(ANY_HOST) ? own : [...own, ...SELECTIONS];
}

const NO_TEST =
  'The pack cannot test its settings: the connection test is always `ok`, and errors show with the first delivery.';

export function describeDestination(definition: Definition): ConnectorDescription {
  const { destination, type, title, category, sentence, hasTest, presets, actions } = definition;
  const { deletes, hasAudiences } = definition;
  const settingsSchema = settingsSchemaOf(definition);
  return {
    type,
    title,
    category,
    description: [
      sentence,
      `Each event goes to ${title} by its destination in Segment's pack of actions (\`@segment/action-destinations\`).`,
      ...(hasTest ? [] : [NO_TEST]),
    ].join('\n\n'),
    settingsSchema,
    secrets: secretNames(settingsSchema),
    harmless: harmlessSettings(definition),
    maxBatch: 1,
    hasTest,
    // The pack lists presets of actions that it has for browsers alone; settings of 0.2.0 may name them.
    presets: presets.filter(({ action }) => actions.includes(action)),
    actions,
    ...(deletes && { deletes }),
    ...(hasAudiences && { hasAudiences }),
    generate: (settings) => withSubscriptions(definition, settings),
    replaced: keptForm,
    check: (settings) => settingsFaults(definition, settings),
    details: () => {
      const details = detailsOf(destination);
      const { actions, audienceFields } = details;
      return {
        actions,
        audienceFields,
        subscriptions: defaultSubscriptions(details),
        settingsSchema: settingsSchemaOf(definition, details.settings),
      };
    },
  };
}
