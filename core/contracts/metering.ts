import { _, type Ajv, type CodeGen, type CodeKeywordDefinition, type KeywordCxt, Name } from 'ajv';
import type { WorkMeter } from './work-meter.ts';

/** What a schema is given beside its own keywords, so that its compiled code spends from the meter. */
export interface Toll {
  /** Units of one application, paid before anything is judged. */
  readonly work: number;
  /** It begins a compiled function, which is called with the path it stands at, however long that is. */
  readonly isCalled: boolean;
}

export const TOLL = 'toll';
/** Its value is the units for each field of an object. */
export const FIELD_TOLL = 'fieldToll';
/** Stands beside every `toll`: pays for the errors that were made since, as many times as it says. */
export const ERROR_TOLL = 'errorToll';

/** Every 64 characters of a path are as many units. */
const WHOLE_PATHS = ~63;
/** Eight errors that are copied are a unit: each reference that fails copies all there are. */
const COPY_SHIFT = 3;

/** What a compiled function calls what it knows. */
const N = {
  vErrors: new Name('vErrors'),
  errors: new Name('errors'),
  instancePath: new Name('instancePath'),
};

/** The keywords that meter, which come before all others of the compiler, and its `$ref`, whose errors are copied. */
export function meteringKeywords(
  meter: WorkMeter,
  compiler: Pick<Ajv, 'RULES' | 'getKeyword'>,
): readonly CodeKeywordDefinition[] {
  const first = compiler.RULES.rules[0]?.rules[0]?.keyword;
  const reference = compiler.getKeyword('$ref') as CodeKeywordDefinition;
  if (first === undefined) throw new TypeError('the compiler has no keyword');
  /** How many errors of a compiled function are paid for. */
  const seen = new WeakMap<CodeGen, Name>();
  const scoped = ({ gen }: KeywordCxt) => gen.scopeValue('obj', { ref: meter });
  return [
    {
      keyword: TOLL,
      schemaType: 'object',
      before: first,
      code(context) {
        const { gen } = context;
        const { work, isCalled } = context.schema as Toll;
        const name = scoped(context);
        const due = isCalled ? _`${work} + (${N.instancePath}.length & ${WHOLE_PATHS})` : _`${work}`;
        gen.code(_`if ((${name}.left -= ${due}) < 0) throw ${name}.stop(${N.vErrors});`);
        if (isCalled) seen.set(gen, gen.let('seen', 0));
      },
    },
    {
      keyword: FIELD_TOLL,
      schemaType: 'number',
      before: first,
      code(context) {
        const { data, gen, schema } = context;
        const isObject = _`typeof ${data} == "object" && ${data} && !Array.isArray(${data})`;
        gen.if(isObject, () =>
          gen.code(_`${scoped(context)}.spend(${schema} * Object.keys(${data}).length)`),
        );
      },
    },
    {
      keyword: ERROR_TOLL,
      schemaType: 'number',
      post: true,
      code(context) {
        const { gen, schema } = context;
        const paid = seen.get(gen);
        if (paid === undefined) throw new TypeError('a compiled function begins without its toll');
        gen.if(_`${N.errors} !== ${paid}`, () =>
          gen.assign(paid, _`${scoped(context)}.payErrors(${N.vErrors}, ${paid}, ${schema})`),
        );
      },
    },
    {
      ...reference,
      keyword: '$ref',
      code(context) {
        const { gen } = context;
        reference.code(context);
        const paid = seen.get(gen);
        gen.if(_`${N.vErrors} !== null`, () => {
          gen.code(_`${scoped(context)}.spend(${N.vErrors}.length >> ${COPY_SHIFT})`);
          // What was called has paid for its own.
          if (paid !== undefined) gen.assign(paid, N.errors);
        });
      },
    },
  ];
}
