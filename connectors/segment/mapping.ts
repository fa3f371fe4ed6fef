import { isDeepStrictEqual } from 'node:util';
import {
  type ActionField,
  type DestinationAction,
  type FieldCondition,
  type FieldConditions,
  isObject,
  type Json,
  type JsonObject,
} from '@tributary/core';
import type { SettingsFault } from '../settings.ts';

/*
 * Whether a mapping can run: its directives as the pack's mapping kit evaluates them, and the values that no event changes
 * as its schemas take them. It is checked when a destination is saved, in processes that do not load the pack.
 */

/** Keys of a mapping that the pack reads itself. */
const SYNC_MODE = '__segment_internal_sync_mode';
const ROOT_DIRECTIVE = '__segment_internal_directive';
const INTERNAL = new Set([SYNC_MODE, '__segment_internal_matching_key', ROOT_DIRECTIVE]);

/** The faults of a mapping of an action. Paths are JSON pointers below the mapping. */
export function mappingFaults(action: DestinationAction, mapping: JsonObject): readonly SettingsFault[] {
  const { fields, other_keys: others = [], sync_modes: modes } = action;
  const known = new Set([...fields.map(({ field }) => field), ...others, ...INTERNAL]);
  const unknown = Object.keys(mapping).filter((key) => !known.has(key));
  if (unknown.length > 0)
    return unknown.map((key) => ({
      path: pointer(key),
      message: `is no field of the action ${action.action}`,
    }));
  const structure = Object.entries(mapping).flatMap(([key, value]) =>
    key === ROOT_DIRECTIVE ? rootFaults(value) : structureFaults(value, pointer(key)),
  );
  if (structure.length > 0) return structure;
  const mode = mapping[SYNC_MODE];
  const modeFaults: SettingsFault[] =
    mode === undefined || modes === undefined || modes.some((one) => one === mode)
      ? []
      : [{ path: pointer(SYNC_MODE), message: `must be one of ${modes.join(', ')}` }];
  return [...modeFaults, ...fields.flatMap((field) => fieldFaults(field, mapping, mapping, ''))];
}

function pointer(...names: readonly string[]): string {
  return names.map((name) => `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

function directiveOf(value: Json): string | undefined {
  return isObject(value) ? Object.keys(value).find((key) => key.startsWith('@')) : undefined;
}

/** The directive that the whole mapping is the `mapping` of. */
function rootFaults(value: Json): readonly SettingsFault[] {
  const path = pointer(ROOT_DIRECTIVE);
  const name = directiveOf(value);
  const argument = name === undefined || !isObject(value) ? undefined : value[name];
  if (name === undefined || !isObject(argument))
    return [{ path, message: 'must be a directive with an object' }];
  return structureFaults({ [name]: { mapping: {}, ...argument } }, path);
}

function structureFaults(value: Json, path: string): readonly SettingsFault[] {
  if (Array.isArray(value))
    return value.flatMap((item, at) => structureFaults(item, path + pointer(String(at))));
  if (!isObject(value)) return [];
  const name = directiveOf(value);
  if (name === undefined)
    return Object.entries(value).flatMap(([key, member]) => structureFaults(member, path + pointer(key)));
  if (Object.keys(value).some((key) => key !== name && key !== '_metadata'))
    return [{ path, message: `must have no member beside ${name}` }];
  const check = DIRECTIVES.get(name);
  const at = path + pointer(name);
  if (check === undefined)
    return [{ path: at, message: `is no directive; known are ${[...DIRECTIVES.keys()].join(', ')}` }];
  return check(value[name] ?? null, at);
}

type Check = (argument: Json, path: string) => readonly SettingsFault[];

/** A text, or a directive that makes one. */
const textOrDirective: Check = (value, path) =>
  typeof value === 'string'
    ? []
    : directiveOf(value) === undefined
      ? [{ path, message: 'must be a text or a directive' }]
      : structureFaults(value, path);

const objectOrDirective: Check = (value, path) =>
  isObject(value) ? structureFaults(value, path) : [{ path, message: 'must be an object or a directive' }];

const textUpTo =
  (min: number, max: number): Check =>
  (value, path) =>
    typeof value === 'string' && value.length >= min && value.length <= max
      ? []
      : [{ path, message: `must be a text of ${min} to ${max} characters` }];

const wordOf =
  (...words: readonly string[]): Check =>
  (value, path) =>
    words.some((word) => word === value) ? [] : [{ path, message: `must be ${words.join(' or ')}` }];

const flag: Check = (value, path) =>
  typeof value === 'boolean' ? [] : [{ path, message: 'must be true or false' }];

const anyValue: Check = (value, path) => structureFaults(value, path);

/** The pack takes a value that is falsy for an absent one. */
const someValue: Check = (value, path) =>
  value ? structureFaults(value, path) : [{ path, message: 'must not be empty' }];

const listOfObjects: Check = (value, path) =>
  Array.isArray(value)
    ? value.flatMap((item, at) => objectOrDirective(item, path + pointer(String(at))))
    : [{ path, message: 'must be a list' }];

/** An object with these members; further ones are ignored by the pack, and checked as values. */
function membersOf(
  required: Readonly<Record<string, Check>>,
  optional: Readonly<Record<string, Check>>,
): Check {
  return (argument, path) => {
    if (!isObject(argument) || directiveOf(argument) !== undefined)
      return [
        { path, message: `must be an object with ${Object.keys({ ...required, ...optional }).join(', ')}` },
      ];
    const absent = Object.keys(required)
      .filter((name) => argument[name] === undefined)
      .map((name) => ({ path, message: `must have ${name}` }));
    const checks = { ...required, ...optional };
    const present = Object.entries(argument).flatMap(([name, value]) =>
      (Object.hasOwn(checks, name) ? (checks[name] ?? anyValue) : anyValue)(value, path + pointer(name)),
    );
    return [...absent, ...present];
  };
}

// biome-ignore lint/suspicious/noThenProperty: a member of a directive of Segment's mapping kit
const ifMembers = membersOf({}, { exists: anyValue, blank: anyValue, then: anyValue, else: anyValue });

/** Tags and filters of Liquid that the pack disables. */
const DISABLED_LIQUID =
  /\{%-?\s*(?:case|for|include|layout|render|tablerow)\b|\|\s*(?:array_to_sentence_string|concat|find|find_exp|find_index|find_index_exp|group_by|group_by_exp|has|has_exp|map|newline_to_br|reject|reject_exp|reverse|sort|sort_natural|uniq|where_exp|type)\b/;

const liquid: Check = (value, path) => {
  const length = textUpTo(0, 1_000)(value, path);
  const disabled = typeof value === 'string' ? DISABLED_LIQUID.exec(value)?.[0] : undefined;
  return disabled === undefined ? length : [...length, { path, message: `must not use \`${disabled}\`` }];
};

const arrayPath: Check = (value, path) => {
  if (!Array.isArray(value)) return [{ path, message: 'must be a list of a path and the shape of an item' }];
  const [from, shape] = value;
  return [
    ...textOrDirective(from ?? null, path + pointer('0')),
    ...(shape === undefined ? [] : anyValue(shape, path + pointer('1'))),
  ];
};

const DIRECTIVES: ReadonlyMap<string, Check> = new Map<string, Check>([
  ['@path', textOrDirective],
  ['@template', textOrDirective],
  ['@literal', anyValue],
  [
    '@if',
    (argument, path) =>
      isObject(argument) && !argument.exists && !argument.blank
        ? [{ path, message: 'must have exists or blank' }]
        : ifMembers(argument, path),
  ],
  ['@case', membersOf({ operator: wordOf('lower', 'upper') }, { value: textOrDirective })],
  [
    '@replace',
    membersOf(
      { pattern: textUpTo(1, 10), value: textOrDirective },
      {
        replacement: textUpTo(0, 10),
        pattern2: textUpTo(0, 10),
        replacement2: textUpTo(0, 10),
        ignorecase: flag,
        global: flag,
      },
    ),
  ],
  ['@arrayPath', arrayPath],
  ['@json', membersOf({ mode: wordOf('encode', 'decode'), value: someValue }, {})],
  ['@flatten', membersOf({ separator: textUpTo(1, 100), value: someValue }, { omitArrays: flag })],
  ['@merge', membersOf({ direction: wordOf('left', 'right'), objects: listOfObjects }, {})],
  ['@transform', membersOf({ apply: objectOrDirective, mapping: objectOrDirective }, {})],
  ['@excludeWhenNull', anyValue],
  ['@liquid', liquid],
]);

/** The value that a mapping gives whatever the event; undefined where it depends on the event. */
function literalOf(value: Json): { readonly literal: Json } | undefined {
  const name = directiveOf(value);
  if (name === undefined) return { literal: value };
  return name === '@literal' && isObject(value) ? literalOf(value[name] ?? null) : undefined;
}

/** The pack drops an empty text at the top, and null anywhere, before it checks a payload. */
function isAbsent(value: Json | undefined): boolean {
  if (value === undefined) return true;
  const known = literalOf(value);
  return known !== undefined && (known.literal === null || known.literal === '');
}

/** `mapping`: that of the action, by which conditions are decided; `values`: the object that may have the field. */
function fieldFaults(
  field: ActionField,
  values: JsonObject,
  mapping: JsonObject,
  path: string,
): readonly SettingsFault[] {
  const value = values[field.field];
  const at = path + pointer(field.field);
  if (value === undefined || isAbsent(value)) {
    const isRequired =
      field.required === true || (field.required_if && holds(field.required_if, mapping)) === true;
    return isRequired ? [{ path: at, message: `is required: ${field.label}` }] : [];
  }
  return valueFaults(field, value, mapping, at);
}

function valueFaults(
  field: ActionField,
  value: Json,
  mapping: JsonObject,
  path: string,
): readonly SettingsFault[] {
  const known = literalOf(value);
  if (known === undefined) return [];
  const { literal } = known;
  if (field.multiple === true && Array.isArray(literal))
    return literal.flatMap((item, at) => itemFaults(field, item, mapping, path + pointer(String(at))));
  return itemFaults(field, literal, mapping, path);
}

function itemFaults(
  field: ActionField,
  value: Json,
  mapping: JsonObject,
  path: string,
): readonly SettingsFault[] {
  const known = literalOf(value);
  if (known === undefined || known.literal === null) return [];
  // Its schemas take a list of one for its item.
  const [first, ...more] = Array.isArray(known.literal) ? known.literal : [known.literal];
  const single = more.length === 0 && first !== undefined ? first : known.literal;
  if (directiveOf(single) !== undefined) return [];
  const message = typeFault(field.type, single);
  if (message !== undefined) return [{ path, message }];
  if (isObject(single))
    return (field.fields ?? []).flatMap((member) => fieldFaults(member, single, mapping, path));
  const { choices = [] } = field;
  if (
    choices.length === 0 ||
    single === '' ||
    choices.some((choice) => String(choice.value) === String(single))
  )
    return [];
  return [{ path, message: `must be one of ${choices.map((choice) => String(choice.value)).join(', ')}` }];
}

/** Why a schema of the type refuses a value; it converts texts, numbers and flags into each other. */
function typeFault(type: string, value: Json): string | undefined {
  if (type === 'object') return isObject(value) ? undefined : 'must be an object';
  if (isObject(value) || Array.isArray(value)) return `must be ${A_VALUE[type] ?? 'a text'}`;
  const isFit = FITS[type];
  return isFit === undefined || isFit(value) ? undefined : `must be ${A_VALUE[type] ?? 'a text'}`;
}

const A_VALUE: Readonly<Record<string, string>> = {
  number: 'a number',
  integer: 'a whole number',
  boolean: 'true or false',
  datetime: 'a time, such as "2026-01-02T03:04:05Z"',
};

const isNumeric = (value: Json) =>
  typeof value !== 'string' || (value !== '' && Number.isFinite(Number(value)));

const FITS: Readonly<Record<string, (value: Json) => boolean>> = {
  number: isNumeric,
  integer: (value) => isNumeric(value) && Number.isInteger(Number(value)),
  boolean: (value) => [true, false, 'true', 'false', 0, 1].some((one) => one === value),
  datetime: (value) =>
    typeof value === 'number' ||
    (typeof value === 'string' && (isNumeric(value) || !Number.isNaN(Date.parse(value)))),
};

/** Whether conditions hold for every event; undefined where that depends on the event. */
function holds({ match, conditions }: FieldConditions, mapping: JsonObject): boolean | undefined {
  const results = conditions.map((condition) => conditionHolds(condition, mapping));
  if (match === 'any') return results.includes(true) ? true : results.includes(undefined) ? undefined : false;
  return results.includes(false) ? false : results.includes(undefined) ? undefined : true;
}

function conditionHolds(
  { field, operator, value }: FieldCondition,
  mapping: JsonObject,
): boolean | undefined {
  const [parent = '', child] = field.split('.');
  const stated = mapping[parent];
  if (child !== undefined) return stated === undefined ? false : undefined;
  const known = stated === undefined ? { literal: null } : literalOf(stated);
  if (known === undefined) return undefined;
  const isNone = isAbsent(known.literal);
  if (value === undefined) return operator === 'is' ? isNone : !isNone;
  if (isNone) return false;
  return isDeepStrictEqual(known.literal, value) === (operator === 'is');
}
