import type { JsonObject } from '@tributary/core';
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

export const transformationBody = closed(
  {
    name,
    description: optional(description),
    source_code: sourceCode,
    test_input: optional(testInput),
    test_output: Type.Optional(outputs),
  },
  {
    title: 'TransformationBody',
    examples: [
      {
        name: 'No e-mail addresses',
        source_code: 'function transform(event) { delete event.properties.email; return event; }',
        test_input: { properties: { email: 'ada@example.com' } },
        test_output: { properties: {} },
      },
    ],
  },
);

export const transformationResource = Type.Object(
  {
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
  },
  { title: 'Transformation' },
);

export const transformationList = listOf(transformationResource);

/** What to run: the stored source on the stored `test_input`, unless the body brings others. */
export const testBody = nullable(
  closed({ event: optional(freeObject('Default: `test_input`.')), source_code: optional(sourceCode) }),
);

export const testResult = Type.Object(
  {
    ok: Type.Boolean(),
    output: Type.Unsafe<JsonObject | readonly JsonObject[] | null>({
      type: ['object', 'array', 'null'],
      additionalProperties: true,
      items: { type: 'object', additionalProperties: true },
      description: 'One event, several, or null when it was dropped or failed.',
    }),
    error: nullable(Type.String({ description: 'Why it failed.' })),
    logs: listOf(Type.String(), 'What `console.log` wrote.'),
    duration_ms: Type.Number(),
  },
  { title: 'TransformationTrial' },
);
