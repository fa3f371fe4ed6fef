import type { Json, TypeModel } from '@tributary/core';
import { typesOf } from './calls.ts';

/**
 * The checks of a value by a generated client before it sends, in a form that both runtimes read. They are stricter than
 * the contract in two things: fields that are not declared are refused, and where fields or items are declared the value
 * has to be an object or a list.
 */
export interface Rule {
  readonly types?: readonly string[];
  readonly values?: readonly (string | number | boolean | null)[];
  readonly format?: string;
  readonly bounds?: Readonly<Record<string, number>>;
  readonly fields?: readonly { readonly name: string; readonly required: boolean; readonly rule: Rule }[];
  /** The rule of other fields; `false`: there are none. Absent: any. */
  readonly rest?: Rule | false;
  readonly items?: Rule;
}

/** Formats that both runtimes check. Others, and patterns, are checked by the server. */
const FORMATS: ReadonlySet<string> = new Set([
  'date-time',
  'date',
  'email',
  'uuid',
  'ipv4',
  'ipv6',
  'uri',
  'url',
]);

export function ruleOf(model: TypeModel): Rule {
  const types = typesOf(model);
  const isObject = types === undefined || types.includes('object');
  const bounds = Object.entries(model.bounds).filter(([name]) => name !== 'multipleOf');
  return {
    ...(types === undefined ? {} : { types }),
    ...(model.values?.every(isScalar) ? { values: model.values.filter(isScalar) } : {}),
    ...(model.format !== undefined && FORMATS.has(model.format) ? { format: model.format } : {}),
    ...(bounds.length === 0 ? {} : { bounds: Object.fromEntries(bounds) }),
    ...(isObject && model.fields.length > 0
      ? {
          fields: model.fields.map(({ name, required, model: of }) => ({ name, required, rule: ruleOf(of) })),
        }
      : {}),
    ...(isObject && model.rest !== undefined
      ? { rest: model.rest === false ? false : ruleOf(model.rest) }
      : {}),
    ...(model.items === undefined ? {} : { items: ruleOf(model.items) }),
  };
}

function isScalar(value: Json): value is string | number | boolean | null {
  return value === null || typeof value !== 'object';
}
