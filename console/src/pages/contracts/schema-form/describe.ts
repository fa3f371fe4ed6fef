import { type SchemaForm, TYPES, type TypeName } from './model.ts';

/** The formats that a contract may name, see `docs/reference/contract-keywords.md`. */
export const FORMATS = [
  'date-time',
  'date',
  'time',
  'email',
  'uuid',
  'url',
  'uri',
  'hostname',
  'ipv4',
  'ipv6',
  'duration',
  'iso-date-time',
  'iso-time',
  'uri-reference',
  'uri-template',
  'regex',
  'json-pointer',
  'relative-json-pointer',
  'json-pointer-uri-fragment',
  'byte',
  'int32',
  'int64',
  'float',
  'double',
  'password',
  'binary',
] as const;

const SEPARATOR = '|';

/** The value of a choice of types: `string|null`; empty for any type. */
export function choiceOf(types: readonly TypeName[]): string {
  return types.join(SEPARATOR);
}

export function typesOfChoice(choice: string): readonly TypeName[] {
  return TYPES.filter((type) => choice.split(SEPARATOR).includes(type));
}

export function choiceLabel(types: readonly TypeName[]): string {
  return types.length === 0 ? 'any type' : types.join(' or ');
}

export function mayBe({ types }: SchemaForm, ...wanted: readonly TypeName[]): boolean {
  return wanted.some((type) => types.includes(type));
}

/** The constraints of a field beside its type, in one line: `email · 3 to 20 characters`. */
export function summaryOf(form: SchemaForm): string {
  const { texts, numbers, values } = form;
  const parts = [
    texts.format,
    texts.pattern !== undefined && `matches ${texts.pattern}`,
    values !== undefined && valuesSummary(values),
    bounds(numbers.minLength, numbers.maxLength, 'characters'),
    bounds(numbers.minimum, numbers.maximum, ''),
    numbers.exclusiveMinimum !== undefined && `more than ${numbers.exclusiveMinimum}`,
    numbers.exclusiveMaximum !== undefined && `less than ${numbers.exclusiveMaximum}`,
    numbers.multipleOf !== undefined && `a multiple of ${numbers.multipleOf}`,
    bounds(numbers.minItems, numbers.maxItems, 'items'),
    form.uniqueItems === true && 'no item twice',
    form.additionalProperties === false && 'no other fields',
    Object.keys(form.rest).length > 0 && `also ${Object.keys(form.rest).join(', ')}`,
    texts.description,
  ];
  return parts.filter((part) => typeof part === 'string' && part !== '').join(' · ');
}

const SHOWN_VALUES = 4;

function valuesSummary(values: readonly (string | number)[]): string {
  if (values.length > SHOWN_VALUES) return `one of ${values.length} values`;
  return values.length === 1 ? `only ${values[0]}` : `one of ${values.join(', ')}`;
}

function bounds(min: number | undefined, max: number | undefined, unit: string): string | undefined {
  if (min === undefined && max === undefined) return undefined;
  const range =
    min === undefined ? `at most ${max}` : max === undefined ? `at least ${min}` : `${min} to ${max}`;
  return `${range} ${unit}`.trim();
}
