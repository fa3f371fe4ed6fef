import { _, type Ajv, type CodeGen, type CodeKeywordDefinition, type KeywordCxt, Name } from 'ajv';
import { Type } from 'ajv/dist/compile/util.js';
import type { Json, JsonObject } from '../../event/event.ts';
import { distinctTest, isMultiple, lengthTests, oneOfValues, sameAs } from '../json-values.ts';
import type { WorkMeter } from '../work.ts';

/*
 * Keywords that replace or extend those of ajv: tests that are safe for hostile events, corrected keywords about unevaluated
 * members, and keywords that charge the compiled code's work to a meter.
 */

/** Generates a call of `test(value)`. Unlike ajv's function keywords it allocates nothing per call. */
function callTest(context: KeywordCxt, test: (value: never) => boolean): void {
  const name = context.gen.scopeValue('func', { ref: test });
  context.pass(_`${name}(${context.data})`);
}

/** `uniqueItems` in linear time; the stock version compares each item with each. */
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
 * Keywords whose stock versions are not safe for hostile events: comparing with an event's `valueOf` field throws there,
 * `uniqueItems` takes quadratic time, 19.99 is no multiple of 0.01, and lengths are counted without being metered.
 */
export function safeKeywords(meter: WorkMeter): readonly CodeKeywordDefinition[] {
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

/**
 * Corrects where ajv loses track of evaluated members: its `if` passes on the members that a condition evaluated even where
 * the condition does not hold, and none where no branch follows; its `unevaluatedItems` takes a count known only at run
 * time for a number, which it is not when an alternative evaluated every item, or none.
 */
export const UNEVALUATED_KEYWORDS: readonly CodeKeywordDefinition[] = [
  {
    keyword: 'if',
    schemaType: ['object', 'boolean'],
    trackErrors: true,
    error: { message: '', params: _`{}` },
    code(context) {
      const { gen, it, parentSchema } = context;
      const [then, otherwise] = [parentSchema.then !== undefined, parentSchema.else !== undefined];
      if (it.opts.unevaluated !== true && !then && !otherwise) return;
      const valid = gen.let('valid', true);
      const holds = gen.name('holds');
      const mode = { compositeRule: true, createErrors: false, allErrors: false } as const;
      const condition = context.subschema({ keyword: 'if', ...mode }, holds);
      context.mergeValidEvaluated(condition, holds);
      context.reset();
      if (then) gen.if(holds, () => branch(context, 'then', valid));
      if (otherwise) gen.if(_`!${holds}`, () => branch(context, 'else', valid));
      context.pass(valid, () => context.error(true));
    },
  },
  {
    keyword: 'unevaluatedItems',
    type: 'array',
    schemaType: ['boolean', 'object'],
    error: { message: '', params: ({ params }) => _`{limit: ${params.seen}}` },
    code(context) {
      const { gen, it, data, schema } = context;
      const items = it.items ?? 0;
      if (items === true) return;
      const length = gen.const('length', _`${data}.length`);
      const seen =
        items instanceof Name ? gen.const('seen', _`${items} === true ? ${length} : ${items} || 0`) : items;
      if (schema === false) {
        context.setParams({ seen });
        context.fail(_`${length} > ${seen}`);
      } else {
        const valid = gen.var('valid', true);
        gen.forRange('i', seen, length, (index) => {
          context.subschema({ keyword: 'unevaluatedItems', dataProp: index, dataPropType: Type.Num }, valid);
        });
        context.ok(valid);
      }
      it.items = true;
    },
  },
];

function branch(context: KeywordCxt, keyword: 'then' | 'else', valid: Name): void {
  const { gen } = context;
  const passes = gen.name('passes');
  const part = context.subschema({ keyword }, passes);
  gen.assign(valid, passes);
  context.mergeValidEvaluated(part, passes);
}

/** Charges one application of a schema. Written beside the keywords of the schema, its value is a `Charge`. */
export const CHARGE = 'charge';
export interface Charge {
  /** Units of one application, charged before anything is evaluated. */
  readonly work: number;
  /** The schema becomes a compiled function. Each call is also charged for its path, which may be long. */
  readonly isFunction: boolean;
}
/** Its value is the units charged for each field of an object. */
export const CHARGE_PER_FIELD = 'chargePerField';
/** Stands beside every `charge` and charges the errors made since, as many times as its value. */
export const CHARGE_ERRORS = 'chargeErrors';

/** Every 64 characters of a path are as many units. */
const WHOLE_PATHS = ~63;
/** Eight errors that are copied are a unit: each reference that fails copies all errors there are. */
const COPY_SHIFT = 3;

/** Variables of ajv's compiled functions. */
const N = {
  vErrors: new Name('vErrors'),
  errors: new Name('errors'),
  instancePath: new Name('instancePath'),
};

/**
 * The keywords that meter, which come before all others of the compiler, and its `$ref` with a charge for the errors it
 * copies.
 */
export function meteringKeywords(
  meter: WorkMeter,
  compiler: Pick<Ajv, 'RULES' | 'getKeyword'>,
): readonly CodeKeywordDefinition[] {
  const first = compiler.RULES.rules[0]?.rules[0]?.keyword;
  const reference = compiler.getKeyword('$ref') as CodeKeywordDefinition;
  if (first === undefined) throw new TypeError('the compiler has no keyword');
  /** The variable of each compiled function that counts the errors already charged. */
  const chargedErrors = new WeakMap<CodeGen, Name>();
  const meterIn = ({ gen }: KeywordCxt) => gen.scopeValue('obj', { ref: meter });
  return [
    {
      keyword: CHARGE,
      schemaType: 'object',
      before: first,
      code(context) {
        const { gen } = context;
        const { work, isFunction } = context.schema as Charge;
        const name = meterIn(context);
        const due = isFunction ? _`${work} + (${N.instancePath}.length & ${WHOLE_PATHS})` : _`${work}`;
        gen.code(_`if ((${name}.left -= ${due}) < 0) throw ${name}.stop(${N.vErrors});`);
        if (isFunction) chargedErrors.set(gen, gen.let('charged', 0));
      },
    },
    {
      keyword: CHARGE_PER_FIELD,
      schemaType: 'number',
      before: first,
      code(context) {
        const { data, gen, schema } = context;
        const isObject = _`typeof ${data} == "object" && ${data} && !Array.isArray(${data})`;
        gen.if(isObject, () =>
          gen.code(_`${meterIn(context)}.spend(${schema} * Object.keys(${data}).length)`),
        );
      },
    },
    {
      keyword: CHARGE_ERRORS,
      schemaType: 'number',
      post: true,
      code(context) {
        const { gen, schema } = context;
        const charged = chargedErrors.get(gen);
        if (charged === undefined) throw new TypeError('a compiled function begins without its charge');
        gen.if(_`${N.errors} !== ${charged}`, () =>
          gen.assign(charged, _`${meterIn(context)}.chargeErrors(${N.vErrors}, ${charged}, ${schema})`),
        );
      },
    },
    {
      ...reference,
      keyword: '$ref',
      code(context) {
        const { gen } = context;
        reference.code(context);
        const charged = chargedErrors.get(gen);
        gen.if(_`${N.vErrors} !== null`, () => {
          gen.code(_`${meterIn(context)}.spend(${N.vErrors}.length >> ${COPY_SHIFT})`);
          // The called function has charged its own errors.
          if (charged !== undefined) gen.assign(charged, N.errors);
        });
      },
    },
  ];
}
