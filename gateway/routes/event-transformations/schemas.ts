import { type JsonObject, SANDBOX_LOG_LEVELS } from '@tributary/core';
import { Type } from 'typebox';
import {
  closed,
  description,
  freeObject,
  listOf,
  name,
  nullable,
  oneOf,
  optional,
  resourceFields,
  times,
  uuid,
  version,
} from '../../http/schemas.ts';

const sourceCode = Type.String({
  minLength: 1,
  maxLength: 256 * 1024,
  description: 'JavaScript: `function transform(event, context)` returns the event, several, or null.',
});

const testInput = freeObject('Given to the function exactly as it stands here.');

/** An object, an array of objects, or null. */
const outputs = Type.Unsafe<JsonObject | readonly JsonObject[] | null>({
  type: ['object', 'array', 'null'],
  additionalProperties: true,
  items: { type: 'object', additionalProperties: true },
  description:
    'What the function must return for `test_input`: an event, or an array of them (an empty one: the event is dropped). Without it, or with null, there is no test.',
});

export const transformationBody = closed({
  name,
  description: optional(description),
  source_code: sourceCode,
  test_input: optional(testInput),
  test_output: Type.Optional(outputs),
});

export const transformationResource = Type.Object({
  ...resourceFields,
  description: nullable(description),
  source_code: Type.String(),
  test_input: nullable(testInput),
  test_output: outputs,
  status: oneOf(['draft', 'active', 'error']),
  test_error: nullable(Type.String({ description: 'How its test failed, while draft.' })),
  last_error: nullable(Type.String({ description: 'The last failure that made it `error`.' })),
  version,
  created_by: uuid,
  ...times,
});

export const transformationList = listOf(transformationResource);

/** What to run: the stored source on the stored `test_input`, unless the body brings others. */
export const testBody = nullable(
  closed({ event: optional(freeObject('Default: `test_input`.')), source_code: optional(sourceCode) }),
);

export const testResult = Type.Object({
  ok: Type.Boolean(),
  output: Type.Unsafe<JsonObject | readonly JsonObject[] | null>({
    type: ['object', 'array', 'null'],
    additionalProperties: true,
    items: { type: 'object', additionalProperties: true },
    description: 'One event, several, or null when it was dropped or failed.',
  }),
  error: nullable(Type.String({ description: 'Why it failed.' })),
  line: nullable(
    Type.Integer({ description: 'Where in the source it failed, from 1, as far as that is known.' }),
  ),
  column: nullable(Type.Integer()),
  logs: listOf(
    Type.Object({ level: oneOf(SANDBOX_LOG_LEVELS), text: Type.String() }),
    'What `console` wrote: 100 lines of 1,024 characters at most.',
  ),
  duration_ms: Type.Number({ description: 'The same as `run_ms`.' }),
  compile_ms: Type.Number({ description: 'How long the source took to compile and load.' }),
  run_ms: Type.Number({ description: 'How long the function took for the event.' }),
});
