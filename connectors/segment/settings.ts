import {
  type BatchLimits,
  type ConnectorDescription,
  type DefaultSubscription,
  type DestinationAction,
  deeperThan,
  isObject,
  type Json,
  type JsonObject,
  objectIn,
} from '@tributary/core';
import { createSettingsReader, memoizeByObject, type SettingsFault, secretNames } from '../settings.ts';
import { ANY_HOST, type Definition } from './definitions.ts';
import { type Details, detailsOf } from './details.ts';
import { mappingFaults } from './mapping.ts';
import type { Subscription } from './messages.ts';

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

/** Events and bytes of a call at most: a process of the pack takes 3 MiB for 256 KiB of events until they are answered. */
const MAX_BATCH = 1_000;
const MAX_BATCH_BYTES = 256 * 1_024;
/** The same where some subscriptions make a request of each event. */
const MAX_MIXED_BATCH = 50;

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
            batch: {
              type: 'boolean',
              title: 'Batches',
              description:
                'Send the events in batches, where the action can. Absent: as `enable_batching` of the mapping says. `batch_size`, `batch_bytes` and `batch_keys` of the mapping bound them.',
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
  readonly batch?: boolean;
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
  /** Bounds on one call. */
  readonly limits: BatchLimits;
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
  return memoizeByObject((settings) => {
    const stated = read(settings);
    if (stated === undefined) return undefined;
    const { subscriptions, presets, actions = [], ...own } = stated;
    const enabled = subscriptions?.filter((subscription) => subscription.enabled !== false);
    return {
      own,
      presets: subscriptions === undefined && isEarlier ? (presets ?? known) : [],
      limits: limitsOf(definition, enabled ?? []),
      subscriptions:
        enabled?.map((subscription) => subscriptionOf(definition, subscription)) ??
        actions.map(({ action, subscribe, mapping = {} }) => ({
          name: action,
          subscribe,
          partnerAction: action,
          mapping,
        })),
      secrets: secretFields.map((name) => String(own[name] ?? '')).filter((text) => text !== ''),
    };
  });
}

function subscriptionOf(definition: Definition, stated: StatedSubscription): Subscription {
  const { name, action, trigger } = stated;
  const { isOn, keys, mapping } = batchOf(definition, stated);
  return {
    name: name ?? action,
    subscribe: trigger,
    partnerAction: action,
    mapping,
    ...(isOn ? { batch: { keys } } : {}),
  };
}

/** The batches of a subscription. Its payloads say by `enable_batching` which way they go, as some actions read it. */
function batchOf({ batches = {} }: Definition, { action, mapping = {}, batch }: StatedSubscription) {
  const defaults = batches[action];
  const isOn = defaults !== undefined && (batch ?? mapping.enable_batching === true);
  const { batch_size: count, batch_bytes: bytes, batch_keys: keys } = mapping;
  const hasSwitch = defaults?.hasSwitch === true && (isOn || mapping.enable_batching !== undefined);
  return {
    isOn,
    count: positive(count) ?? defaults?.count ?? 1,
    bytes: positive(bytes) ?? defaults?.bytes ?? MAX_BATCH_BYTES,
    keys: Array.isArray(keys) ? keys.map(String) : (defaults?.keys ?? []),
    mapping: hasSwitch ? { ...mapping, enable_batching: isOn } : mapping,
  };
}

function positive(value: Json | undefined): number | undefined {
  const number = typeof value === 'string' ? Number(value) : value;
  return typeof number === 'number' && number >= 1 ? Math.floor(number) : undefined;
}

/** One event for each call without batches: an event is at least one request, and rate limits count calls. */
function limitsOf(definition: Definition, enabled: readonly StatedSubscription[]): BatchLimits {
  const batches = enabled.map((subscription) => batchOf(definition, subscription));
  const on = batches.filter(({ isOn }) => isOn);
  if (on.length === 0) return { events: 1 };
  return {
    events: Math.min(
      on.length < batches.length ? MAX_MIXED_BATCH : MAX_BATCH,
      ...on.map(({ count }) => count),
    ),
    bytes: Math.min(MAX_BATCH_BYTES, ...on.map(({ bytes }) => bytes)),
  };
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
      ? subscriptionFaults(definition, details, subscription).map(({ path, message }) => ({
          path: `/subscriptions/${at}${path}`,
          message,
        }))
      : [],
  );
}

/** The faults of a subscription. A draft, which is not enabled, may lack what it requires. */
function subscriptionFaults(
  definition: Definition,
  details: Details,
  subscription: JsonObject,
): readonly SettingsFault[] {
  const { action: name, trigger, mapping, enabled, batch } = subscription;
  // The triggers of the pack run as they are, whatever the rules for others.
  const isOfPack = [...details.presets, ...details.actions].some((one) => one.trigger === trigger);
  const ofTrigger = isOfPack ? [] : triggerFaults(trigger, '/trigger');
  const action = details.actions.find((one) => one.action === name);
  if (action === undefined)
    return [...ofTrigger, { path: '/action', message: 'is no action of the destination' }];
  const ofBatch =
    batch === true && action.batch !== true
      ? [
          {
            path: '/batch',
            message: `is not possible: the action ${action.action} takes one event at a time`,
          },
        ]
      : [];
  const ofMapping =
    enabled === false
      ? []
      : faultsOfMapping(
          action,
          batchOf(definition, {
            action: action.action,
            trigger: '',
            mapping: objectIn(mapping),
            ...(typeof batch === 'boolean' ? { batch } : {}),
          }).mapping,
        );
  return [...ofTrigger, ...ofBatch, ...ofMapping];
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
  const written = defaultSubscriptions(definition, detailsOf(definition.destination));
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
function defaultSubscriptions(definition: Definition, details: Details): readonly DefaultSubscription[] {
  const withBatch = (subscription: DefaultSubscription): DefaultSubscription =>
    definition.batches?.[subscription.action] === undefined
      ? subscription
      : { ...subscription, batch: subscription.mapping.enable_batching === true };
  if (details.presets.length > 0)
    return details.presets.map((preset) =>
      withBatch({
        ...preset,
        enabled: subscriptionFaults(definition, details, { ...preset }).length === 0,
      }),
    );
  return details.actions.map(({ action, title, trigger = 'type = "track"', fields }) =>
    withBatch({
      name: title,
      action,
      trigger,
      mapping: Object.fromEntries(
        fields.flatMap((field): [string, Json][] =>
          field.default === undefined ? [] : [[field.field, field.default]],
        ),
      ),
      enabled: false,
    }),
  );
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

const connectText = (service: string) =>
  `It is connected with an account at ${service}, by a person who signs in there. Until then it is paused, and so is one whose access ${service} ends: deliveries wait until it is connected again.`;

const NO_TEST =
  'The pack cannot test its settings: the connection test is always `ok`, and errors show with the first delivery.';

/** `service`: the name of the one that it is connected with. */
export function describeDestination(definition: Definition, service?: string): ConnectorDescription {
  const { destination, type, title, category, sentence, hasTest, presets, actions } = definition;
  const { deletes, hasAudiences } = definition;
  const settingsSchema = settingsSchemaOf(definition);
  return {
    type,
    title,
    category,
    compared: COMPARED[destination],
    description: [
      sentence,
      `Each event goes to ${title} by its destination in Segment's pack of actions (\`@segment/action-destinations\`).`,
      ...(hasTest ? [] : [NO_TEST]),
      ...(service === undefined ? [] : [connectText(service)]),
    ].join('\n\n'),
    settingsSchema,
    secrets: secretNames(settingsSchema),
    harmless: harmlessSettings(definition),
    maxBatch: definition.batches === undefined ? 1 : MAX_BATCH,
    hasTest,
    ...(service === undefined ? {} : { service }),
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
        subscriptions: defaultSubscriptions(definition, details),
        settingsSchema: settingsSchemaOf(definition, details.settings),
      };
    },
  };
}

/**
 * The day on which the requests of a destination were compared with the public document of its vendor, by folder of the pack:
 * `docs/reference/segment-vendors.md` has the documents and the differences.
 */
export const COMPARED: Readonly<Record<string, string>> = Object.fromEntries(
  [
    'adjust',
    'airship',
    'algolia-insights',
    'amplitude',
    'amplitude-cohorts',
    'attentive',
    'braze',
    'clevertap',
    'customerio',
    'dotdigital',
    'drip',
    'dub',
    'facebook-conversions-api',
    'fullstory',
    'google-analytics-4',
    'hubspot',
    'intercom',
    'iterable',
    'iterable-lists',
    'klaviyo',
    'launchdarkly',
    'loops',
    'metronome',
    'mixpanel',
    'ms-bing-capi',
    'nextdoor-capi',
    'pinterest-conversions',
    'pipedrive',
    'posthog',
    'recombee',
    'sendgrid',
    'slack',
    'twilio',
    'twilio-messaging',
    'twilio-studio',
    'userpilot',
  ].map((destination) => [destination, '2026-11-30']),
);

/*
 * The conditions of Segment's query language as the pack evaluates them. Its own parser skips what it does not understand, so a
 * subscription with a mistake takes no event, or others than meant; it is checked when a destination is saved.
 */

/** A name, in which a backslash escapes any character. */
const NAME = String.raw`(?:\\.|[A-Za-z_])(?:\\.|[\w-])*`;
const TOKEN = new RegExp(
  [
    String.raw`[ \t\n]*(?:(?<text>"[^"]*")|(?<number>[-+]?\d+(?:\.\d+)?)(?![\w.])`,
    // White space, where the pack needs it: after a word, and around signs other than `=`.
    String.raw`(?<path>(?!(?:and|or)\()${NAME}(?:\.${NAME})*)`,
    String.raw`(?<sign>!=(?=\s)|(?<=\s)[<>]=?(?=\s)|[=!(),]))`,
  ].join('|'),
  'sy',
);

interface Token {
  readonly kind: 'text' | 'number' | 'path' | 'sign' | 'end';
  readonly text: string;
}

const TYPES = new Set(['track', 'identify', 'page', 'screen', 'group', 'alias']);
const COMPARISONS = new Set(['=', '!=', '<', '<=', '>', '>=']);
const TEXT_FIELDS = new Set(['type', 'event', 'name', 'userId']);

/** Why a subscription is not one; undefined for one that the pack understands. */
export function subscriptionFault(subscribe: string): string | undefined {
  try {
    const parser = new Parser(tokensOf(subscribe));
    parser.conditions(false);
    parser.expect('');
    return undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return error.message;
    throw error;
  }
}

function tokensOf(subscribe: string): Token[] {
  const tokens: Token[] = [];
  TOKEN.lastIndex = 0;
  while (subscribe.slice(TOKEN.lastIndex).trim() !== '') {
    const from = TOKEN.lastIndex;
    const { groups } = TOKEN.exec(subscribe) ?? {};
    if (groups === undefined) throw faultAt(subscribe.slice(from).trim());
    for (const kind of ['text', 'number', 'path', 'sign'] as const)
      if (groups[kind] !== undefined) tokens.push({ kind, text: groups[kind] });
  }
  return tokens;
}

function faultAt(rest: string): SyntaxError {
  const hint = rest.startsWith("'") ? ': texts are in double quotes' : '';
  return new SyntaxError(`cannot be parsed at ${JSON.stringify(rest.slice(0, 20))}${hint}`);
}

const END: Token = { kind: 'end', text: '' };

/** The pack takes both in capitals too. */
function jointOf({ kind, text }: Token): 'and' | 'or' | undefined {
  if (kind !== 'path') return undefined;
  const word = text.toLowerCase();
  return word === 'and' || word === 'or' ? word : undefined;
}

class Parser {
  readonly #tokens: Token[];

  constructor(tokens: Token[]) {
    this.#tokens = tokens;
  }

  /** Conditions that are all joined by `and`, or all by `or`, as the pack takes the last one for all. */
  conditions(inGroup: boolean): void {
    this.#condition(inGroup);
    const joint = jointOf(this.#next);
    for (let next = joint; next !== undefined; next = jointOf(this.#next)) {
      if (next !== joint) throw new SyntaxError('must not mix `and` and `or` without parentheses');
      this.#take();
      this.#condition(inGroup);
    }
  }

  expect(text: string): void {
    const token = this.#take();
    if (token.text !== text) throw unexpected(token, text === '' ? '`and`, `or` or the end' : `\`${text}\``);
  }

  get #next(): Token {
    return this.#tokens[0] ?? END;
  }

  #take(): Token {
    return this.#tokens.shift() ?? END;
  }

  #condition(inGroup: boolean): void {
    const first = this.#take();
    if (first.text === '(' && !inGroup) {
      this.conditions(true);
      this.expect(')');
      return;
    }
    const name = first.text === '!' ? this.#take().text : first.text;
    if (name === 'contains' || name === 'match') {
      this.#call(name);
      return;
    }
    if (first.kind !== 'path') throw unexpected(first, 'a condition, such as `type = "track"`');
    this.#field(first);
    this.#comparison(first.text);
  }

  #call(name: string): void {
    this.expect('(');
    const field = this.#take();
    this.#field(field);
    if (field.text === 'type') throw new SyntaxError(`${name} is not for \`type\``);
    this.expect(',');
    const { kind, text } = this.#take();
    if (kind !== 'text') throw new SyntaxError(`${name} needs a text in double quotes`);
    if (name === 'match' && !/^"(?:\*.*|.*\*)"$/s.test(text))
      throw new SyntaxError('match needs a text that begins or ends with `*`');
    this.expect(')');
  }

  #field(token: Token): void {
    if (
      token.kind === 'path' &&
      token.text.split(/(?<!\\)\./).some((name) => /^[.[\]]+$/.test(name.replaceAll('\\', '')))
    )
      throw unexpected(token, 'a name with a letter, a digit or `_`');
    if (
      token.kind === 'path' &&
      (TEXT_FIELDS.has(token.text) || /^(?:properties|traits|context)\./.test(token.text))
    )
      return;
    throw unexpected(
      token,
      'a field: `type`, `event`, `name`, `userId`, or one below `properties`, `traits` or `context`',
    );
  }

  #comparison(field: string): void {
    const sign = this.#take();
    if (!COMPARISONS.has(sign.text)) throw unexpected(sign, 'a comparison, such as `=` or `!=`');
    const value = this.#take();
    // Presets of the pack have types without quotes.
    if (field === 'type' && value.kind === 'path' && TYPES.has(value.text)) return;
    const isWord = value.text === 'true' || value.text === 'false' || value.text === 'null';
    if (value.kind !== 'text' && value.kind !== 'number' && !isWord)
      throw unexpected(value, 'a text in double quotes, a number, `true`, `false` or `null`');
    const isEquality = sign.text === '=' || sign.text === '!=';
    if (!isEquality && value.kind !== 'number') throw new SyntaxError(`\`${sign.text}\` needs a number`);
    if (sign.text === '!=' && (value.text === 'true' || value.text === 'false'))
      throw new SyntaxError(`must compare with \`= ${value.text === 'true' ? 'false' : 'true'}\``);
    if ((field === 'type' || field === 'event') && (value.kind !== 'text' || !isEquality))
      throw new SyntaxError(`\`${field}\` is compared with a text by \`=\` or \`!=\``);
    if (field === 'type' && !TYPES.has(value.text.slice(1, -1)))
      throw new SyntaxError(`no event is of the type ${value.text}`);
  }
}

function unexpected({ kind, text }: Token, wanted: string): SyntaxError {
  return new SyntaxError(`has ${kind === 'end' ? 'its end' : `\`${text}\``} in place of ${wanted}`);
}
