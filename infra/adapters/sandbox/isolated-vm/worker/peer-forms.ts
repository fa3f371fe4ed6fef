/*
 * Scripts that were written for RudderStack, Segment and Jitsu. Their functions have other names, and their events name the
 * fields `userId`; a script of PostHog differs in more than that, so its author is told what to write.
 */

const DECLARED = /^([ \t]*)export(?=[ \t]+(?:async[ \t]+function|function|const|let|var|class)\b)/gm;
const DEFAULT = /^([ \t]*)export[ \t]+default\b[ \t]*/gm;
const LIST = /^[ \t]*export[ \t]*\{[^}]*\}[ \t]*;?/gm;
/** The variable of a default export; as long as `export default`, so that columns stay. */
const EXPORTED = 'var exported = ';

/** A module without its exports, at the same lines and columns. */
export function withoutExports(source: string): string {
  return source
    .replace(DEFAULT, (found, indent: string) => indent + EXPORTED.padEnd(found.length - indent.length))
    .replace(DECLARED, (_, indent: string) => `${indent}      `)
    .replace(LIST, (found) => found.replace(/\S/g, ' '));
}

/** The handlers of Segment's functions, by event type. */
export const HANDLERS = {
  track: 'onTrack',
  identify: 'onIdentify',
  page: 'onPage',
  screen: 'onScreen',
  group: 'onGroup',
  alias: 'onAlias',
};

const ENTRIES = ['exported', 'transformEvent', 'transformBatch', 'onBatch', ...Object.values(HANDLERS)];

/** Behind a source: returns its `transform`, else its functions of other names. */
export const TO_TRANSFORM = `\n;return typeof transform === 'function' ? transform : { ${ENTRIES.map(
  (name) => `${name}: typeof ${name} === 'function' ? ${name} : undefined`,
).join(', ')} }; `;

const PEER_CODE = /\b(?:transformEvent|transformBatch|on(?:Batch|Track|Identify|Page|Screen|Group|Alias))\b/;
const ERRORS = ['DropEvent', 'EventNotSupported', 'InvalidEventPayload', 'ValidationError', 'RetryError'];
const GLOBALS = [
  'const log = console.log;',
  ...ERRORS.map((name) => `class ${name} extends Error { name = '${name}'; }`),
].join(' ');

/** The code around a source of another system, which has globals for its log and its errors; without a line feed. */
export function peerScope(source: string): readonly [before: string, after: string] {
  return PEER_CODE.test(source)
    ? [`(function () { 'use strict'; ${GLOBALS} return `, '.call(this); })']
    : ['', ''];
}

/** The change that a source of another system needs to run, and its line; undefined for other sources. */
export function adviceFor(source: string): { readonly message: string; readonly line: number } | undefined {
  for (const [found, advice] of ADVICE) {
    const at = source.search(found);
    if (at < 0) continue;
    const line = source.slice(0, at).split('\n').length;
    return { message: `${advice} (line ${line})`, line };
  }
  return undefined;
}

const ADVICE: readonly (readonly [RegExp, string])[] = [
  [
    /\bprocessEvent\b/,
    'processEvent is the function of PostHog: write "function transform(event, context)", with event.user_id for event.distinct_id and event.type for names that begin with $',
  ],
  [
    /:=|^[ \t]*fun[ \t]+\w+[ \t]*\(/m,
    'this is Hog, the language of PostHog, and transformations are JavaScript: begin with "function transform(event, context) {" and write = for :=',
  ],
];

type Transform = (event: unknown, context: unknown) => unknown;
type Fields = Readonly<Record<string, unknown>>;

/**
 * Makes functions of other systems a `transform`. Runs inside every isolate: see `bootstrap` for what it must not use.
 */
export function peerForms(
  handlers: Readonly<Record<string, string>>,
  fields: readonly (readonly [own: string, theirs: string])[],
): (entries: Readonly<Record<string, Transform | undefined>>) => Transform | undefined {
  const { create, defineProperty, hasOwn, keys } = Object;
  const { stringify } = JSON;
  const { isArray } = Array;
  const text = String;
  const theirs = create(null) as Record<string, string>;
  const own = create(null) as Record<string, string>;
  for (let i = 0; i < fields.length; i++) {
    const pair = fields[i] ?? ['', ''];
    theirs[pair[0]] = pair[1];
    own[pair[1]] = pair[0];
  }

  /** An event with other names of its fields. A value that is no object is left to the check of outputs. */
  function renamed(value: unknown, names: Readonly<Record<string, string>>): unknown {
    if (typeof value !== 'object' || value === null || isArray(value)) return value;
    const result = {};
    const found = keys(value);
    for (let i = 0; i < found.length; i++) {
      const name = found[i] ?? '';
      const property = {
        value: (value as Fields)[name],
        enumerable: true,
        writable: true,
        configurable: true,
      };
      defineProperty(result, names[name] ?? name, property);
    }
    return result;
  }

  function isFields(value: unknown): value is Record<string, unknown> {
    return typeof value === 'object' && value !== null && !isArray(value);
  }

  /** An event as other systems have it: the traits of an identify are in its context too. */
  function given(event: unknown): unknown {
    const result = renamed(event, theirs) as Record<string, unknown>;
    const { type, traits, context } = result;
    if (type !== 'identify' || !isFields(traits)) return result;
    result.context = { ...(isFields(context) ? context : {}), traits };
    return result;
  }

  /** The traits before the function ran, as JSON by their names. */
  function textsOf(event: unknown): Record<string, string> | undefined {
    const { type, traits } = event as Fields;
    if (type !== 'identify' || !isFields(traits)) return undefined;
    const texts = create(null) as Record<string, string>;
    const names = keys(traits);
    for (let i = 0; i < names.length; i++) texts[names[i] ?? ''] = stringify(traits[names[i] ?? '']);
    return texts;
  }

  /** Applies the changes and removals of either place; the event has its traits in one. */
  function withTraitsInOnePlace(
    value: unknown,
    before: Readonly<Record<string, string>> | undefined,
  ): unknown {
    const event = renamed(value, own);
    if (before === undefined || !isFields(event) || event.type !== 'identify') return event;
    if (!isFields(event.context)) return event;
    const { traits: copy, ...context } = event.context;
    if (!isFields(copy)) return event;
    const traits = isFields(event.traits) ? event.traits : {};
    const result = {};
    const names = keys({ ...traits, ...copy });
    for (let i = 0; i < names.length; i++) {
      const name = names[i] ?? '';
      const isRemoved = name in before && !(hasOwn(traits, name) && hasOwn(copy, name));
      if (isRemoved) continue;
      const isChanged = hasOwn(copy, name) && stringify(copy[name]) !== before[name];
      const changed = isChanged || !hasOwn(traits, name) ? copy[name] : traits[name];
      defineProperty(result, name, { value: changed, enumerable: true, writable: true, configurable: true });
    }
    event.traits = result;
    event.context = context;
    return event;
  }

  function outputOf(
    value: unknown,
    absent: unknown,
    before: Readonly<Record<string, string>> | undefined,
  ): unknown {
    if (value === undefined) return withTraitsInOnePlace(absent, before);
    if (value === 'drop' || value === false) return null;
    if (!isArray(value)) return withTraitsInOnePlace(value, before);
    const list: unknown[] = [];
    for (let i = 0; i < value.length && i < 1_000; i++) list[i] = withTraitsInOnePlace(value[i], before);
    return list;
  }

  /** Segment's functions throw these to drop an event. */
  function dropped(thrown: unknown): null {
    const name = typeof thrown === 'object' && thrown !== null ? (thrown as Fields).name : undefined;
    if (name === 'DropEvent' || name === 'EventNotSupported') return null;
    throw thrown;
  }

  async function awaited(
    value: unknown,
    absent: unknown,
    before: Readonly<Record<string, string>> | undefined,
  ): Promise<unknown> {
    try {
      return outputOf(await value, absent, before);
    } catch (thrown) {
      return dropped(thrown);
    }
  }

  /** `absent`: what becomes of the event where the function returns nothing. */
  function resultOf(
    event: unknown,
    call: (event: unknown) => unknown,
    absent: 'dropped' | 'kept' | 'wrong',
  ): unknown {
    const before = textsOf(event);
    const theirEvent = given(event);
    const instead = absent === 'kept' ? theirEvent : absent === 'dropped' ? null : undefined;
    try {
      const value = call(theirEvent);
      const isObject = typeof value === 'object' && value !== null;
      if (isObject && typeof (value as Fields).then === 'function') return awaited(value, instead, before);
      return outputOf(value, instead, before);
    } catch (thrown) {
      return dropped(thrown);
    }
  }

  /** RudderStack's second argument. */
  function metadataOf(context: unknown): () => Fields {
    const { workspace_id, environment } = context as Fields;
    return () => ({ workspaceId: workspace_id, environment });
  }

  return (entries) => {
    const { exported, transformEvent } = entries;
    if (exported?.name === 'transform') return exported;
    if (transformEvent !== undefined)
      return (event, context) =>
        resultOf(event, (found) => transformEvent(found, metadataOf(context)), 'dropped');
    const batch = entries.transformBatch ?? entries.onBatch;
    if (batch !== undefined)
      return (event, context) => resultOf(event, (found) => batch([found], metadataOf(context)), 'dropped');
    if (exported !== undefined)
      return (event) => resultOf(event, (found) => exported(found, { log: console, props: {} }), 'kept');
    const all = keys(handlers);
    for (let i = 0; i < all.length; i++) {
      if (entries[handlers[all[i] ?? ''] ?? ''] === undefined) continue;
      return (event) => {
        const handler = entries[handlers[text((event as Fields).type)] ?? ''];
        return handler === undefined ? event : resultOf(event, (found) => handler(found, {}), 'wrong');
      };
    }
    return undefined;
  };
}

/** The fields of an event that other systems name otherwise. */
export const THEIR_FIELDS = [
  'user_id',
  'anonymous_id',
  'group_id',
  'previous_id',
  'message_id',
  'received_at',
  'source_id',
].map((name) => [name, name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase())] as const);
