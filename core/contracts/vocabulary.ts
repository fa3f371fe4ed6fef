import { _, type CodeKeywordDefinition, type KeywordCxt } from 'ajv';
import type { Json, JsonObject } from '../event/event.ts';
import { distinctTest, isMultiple, lengthTests, oneOfValues, sameAs } from './json-values.ts';
import type { WorkMeter } from './work-meter.ts';

/** Puts a call of `test(value)` into the compiled code. Unlike ajv's own way it allocates nothing per call. */
function callTest(context: KeywordCxt, test: (value: never) => boolean): void {
  const name = context.gen.scopeValue('func', { ref: test });
  context.pass(_`${name}(${context.data})`);
}

/** `uniqueItems` in linear time; the stock version compares each with each. */
export function uniqueItemsKeyword(meter: WorkMeter): CodeKeywordDefinition {
  const test = distinctTest(meter);
  return {
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    code(context) {
      if (context.schema === true) callTest(context, test);
    },
  };
}

/**
 * Keywords whose stock versions do not suit hostile input: comparing with an event's `valueOf` field throws there,
 * `uniqueItems` takes quadratic time, 19.99 is no multiple of 0.01, and lengths are counted without being metered.
 */
export function ownKeywords(meter: WorkMeter): readonly CodeKeywordDefinition[] {
  return [
    uniqueItemsKeyword(meter),
    {
      keyword: 'enum',
      schemaType: 'array',
      code: (context) => callTest(context, oneOfValues(context.schema as readonly Json[], meter)),
    },
    {
      keyword: 'const',
      code: (context) => callTest(context, sameAs(context.schema as Json, meter)),
    },
    {
      keyword: 'multipleOf',
      type: 'number',
      schemaType: 'number',
      code(context) {
        const step = context.schema as number;
        callTest(context, (value: number) => isMultiple(value, step));
      },
    },
    ...lengthKeywords(meter),
  ];
}

function lengthKeywords(meter: WorkMeter): readonly CodeKeywordDefinition[] {
  const { textAtMost, textAtLeast } = lengthTests(meter);
  const fieldsOf = (value: JsonObject) => Object.keys(value).length;
  const limits: readonly [string, 'string' | 'object', (limit: number) => (value: never) => boolean][] = [
    ['maxLength', 'string', textAtMost],
    ['minLength', 'string', textAtLeast],
    ['maxProperties', 'object', (limit) => (value: JsonObject) => fieldsOf(value) <= limit],
    ['minProperties', 'object', (limit) => (value: JsonObject) => fieldsOf(value) >= limit],
  ];
  return limits.map(([keyword, type, testFor]) => ({
    keyword,
    type,
    schemaType: 'number',
    error: { message: '', params: ({ schemaCode }) => _`{limit: ${schemaCode}}` },
    code: (context) => callTest(context, testFor(context.schema as number)),
  }));
}
