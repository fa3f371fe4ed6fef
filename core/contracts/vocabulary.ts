import { _, type CodeKeywordDefinition, type KeywordCxt } from 'ajv';
import type { Json } from '../event/event.ts';
import { distinctTest, isMultiple, oneOfValues, sameJson } from './json-values.ts';
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
 * `uniqueItems` takes quadratic time, and 19.99 is no multiple of 0.01.
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
      code(context) {
        const expected = context.schema as Json;
        callTest(context, (value: Json) => sameJson(value, expected));
      },
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
  ];
}

/** Stands in schemas that may be applied many times; its value is the work of one application. */
export const WORK = 'work';

export function workKeyword(meter: WorkMeter): CodeKeywordDefinition {
  return {
    keyword: WORK,
    schemaType: 'number',
    code({ gen, schema }) {
      const name = gen.scopeValue('obj', { ref: meter });
      gen.code(_`if ((${name}.left -= ${schema}) < 0) throw ${name}.exhausted;`);
    },
  };
}
