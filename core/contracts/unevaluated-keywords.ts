import { _, type CodeKeywordDefinition, type KeywordCxt, Name } from 'ajv';
import { Type } from 'ajv/dist/compile/util.js';

/**
 * What ajv's own versions lose of what was evaluated: its `if` hands on what a condition saw even where that does not
 * hold, and nothing where no branch follows; its `unevaluatedItems` takes a count known only at run time for a number,
 * which it is not when an alternative saw every item, or none.
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
