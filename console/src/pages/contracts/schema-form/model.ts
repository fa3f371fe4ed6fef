export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export interface JsonObject {
  readonly [name: string]: Json;
}

export const TYPES = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'] as const;
export type TypeName = (typeof TYPES)[number];

/** Keywords that the form edits as a text. */
export const TEXT_KEYWORDS = ['description', 'format', 'pattern'] as const;
/** Keywords that the form edits as a number. */
export const NUMBER_KEYWORDS = [
  'minLength',
  'maxLength',
  'minimum',
  'exclusiveMinimum',
  'maximum',
  'exclusiveMaximum',
  'multipleOf',
  'minItems',
  'maxItems',
] as const;
export type TextKeyword = (typeof TEXT_KEYWORDS)[number];
export type NumberKeyword = (typeof NUMBER_KEYWORDS)[number];

/**
 * A schema as the form shows it. `formToSchema` restores the schema it was read from: members without a form field are in
 * `rest`, and all members keep their order.
 */
export interface SchemaForm {
  /** Empty: any type. */
  readonly types: readonly TypeName[];
  /** The schema writes `type` as a list even if it holds one type. */
  readonly typeIsList?: boolean | undefined;
  readonly texts: { readonly [keyword in TextKeyword]?: string | undefined };
  readonly numbers: { readonly [keyword in NumberKeyword]?: number | undefined };
  readonly values?: readonly string[] | readonly number[] | undefined;
  readonly uniqueItems?: boolean | undefined;
  readonly additionalProperties?: boolean | undefined;
  readonly items?: SchemaForm | undefined;
  /** Absent: the schema has no `properties`. */
  readonly fields?: readonly FieldForm[] | undefined;
  /** The `required: true` of the short form, which the property itself holds. */
  readonly flag?: boolean | undefined;
  /** Names in the list `required` that are no field here, each with its position in the list. */
  readonly requiredOthers: readonly { readonly name: string; readonly at: number }[];
  /** The schema holds an empty list `required`. */
  readonly requiredIsEmpty?: boolean | undefined;
  /** Members that the form has no field for, as they are. */
  readonly rest: JsonObject;
  /** The members of the schema in their order. */
  readonly order: readonly string[];
}

export interface FieldForm {
  /** Identifies the field while its name is typed. */
  readonly id: string;
  readonly name: string;
  /** Added in the form: an empty name is then a missing one. */
  readonly isNew?: boolean | undefined;
  /** The field's position in the list `required` of the object. */
  readonly listedAt?: number | undefined;
  /** JSON where the value is no object, such as `true`. */
  readonly content: FieldContent;
}

export type FieldContent =
  | { readonly kind: 'form'; readonly form: SchemaForm }
  | { readonly kind: 'json'; readonly json: Json };

export const EMPTY_FORM: SchemaForm = {
  types: [],
  texts: {},
  numbers: {},
  requiredOthers: [],
  rest: {},
  order: [],
};

let lastId = 0;

export function newFieldId(): string {
  lastId += 1;
  return `field-${lastId}`;
}

export function isJsonObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
