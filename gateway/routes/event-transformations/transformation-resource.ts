import {
  addCounts,
  asWritten,
  type CanonicalEvent,
  durationQuantile,
  type HourlyRuns,
  iso,
  type JsonObject,
  type RunCounts,
  SANDBOX_LOG_LEVELS,
  type SandboxResult,
  type Transformation,
  type TransformationVersion,
  type TrialEvent,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
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
  time,
  times,
  uuid,
  version,
} from '../../resources/schemas.ts';
import { hoursText, idsText } from '../../resources/values.ts';

const sourceCode = Type.String({
  minLength: 1,
  maxLength: 256 * 1024,
  description: 'JavaScript: `function transform(event, context)` returns the event, several, or null.',
});

const testInput = freeObject(
  'A canonical event. Fields that every event has are filled in where they are absent, and left out of the output.',
);

/** An object, an array of objects, or null. */
const outputs = Type.Unsafe<JsonObject | readonly JsonObject[] | null>({
  type: ['object', 'array', 'null'],
  additionalProperties: true,
  items: { type: 'object', additionalProperties: true },
  description:
    'The expected result for `test_input`: an event, or an array of events (empty: the event is dropped). Without it, or with null, there is no test.',
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
    test_error: nullable(
      Type.String({ description: 'While draft: how its test failed, or which part of a test is missing.' }),
    ),
    last_error: nullable(Type.String({ description: 'The last failure that made it `error`.' })),
    version,
    created_by: uuid,
    ...times,
  },
  { title: 'Transformation' },
);

export const transformationList = listOf(transformationResource);

export const transformationVersion = Type.Object(
  {
    version: Type.Integer({
      description:
        'The version that introduced this source and test. Versions by other changes are not listed.',
    }),
    source_code: Type.String(),
    test_input: nullable(testInput),
    test_output: outputs,
    created_at: time,
    created_by: Type.String({ description: 'The account that wrote it, or `key:` and the API key’s id.' }),
  },
  { title: 'TransformationVersion' },
);

export const transformationVersionList = listOf(
  transformationVersion,
  'Newest first: the first is the one that runs. The newest 100 are kept, and less where they are large.',
);

export const rollbackBody = closed(
  {
    version: Type.Integer({ minimum: 1, description: 'One of `versions`; it comes back as a new one.' }),
  },
  { title: 'RollbackBody', examples: [{ version: 1 }] },
);

export const metricsQuery = closed({ hours: hoursText });

export const metricsOfSeveralQuery = closed({
  hours: hoursText,
  ids: idsText('Ids of transformations', 'those that do not exist'),
});

const count = (description: string) => Type.Integer({ description });
const duration = nullable(
  Type.Number({ description: 'Wall time per event, at most 50 % too high; null without a run.' }),
);

export const transformationMetrics = Type.Object(
  {
    transformation_id: uuid,
    hours: Type.Integer(),
    runs: count('Events it ran on. Repeated runs, after a crash or in the slow queue, are counted again.'),
    errors: count('Runs that failed.'),
    dropped: count('Runs that returned no event.'),
    fanned_out: count('Runs that returned more than one event.'),
    outputs: count('Events that the runs returned.'),
    p50_ms: duration,
    p99_ms: duration,
    hourly: listOf(
      Type.Object({
        hour_bucket: time,
        runs: Type.Integer(),
        errors: Type.Integer(),
        dropped: Type.Integer(),
        fanned_out: Type.Integer(),
        outputs: Type.Integer(),
        p50_ms: duration,
        p99_ms: duration,
      }),
      'The same by the hour, oldest first; hours without a run are left out.',
    ),
  },
  { title: 'TransformationMetrics' },
);

/** Defaults: the stored source and the stored `test_input`. */
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
  },
  { title: 'TransformationTrial' },
);

export function presentTransformation(transformation: Transformation): Static<typeof transformationResource> {
  const { status, test_error } = transformation;
  // Earlier releases stored a draft without a test without a reason.
  const isUnexplained = status === 'draft' && test_error === null;
  return {
    id: transformation.id,
    workspace_id: transformation.workspace_id,
    name: transformation.name,
    description: transformation.description,
    source_code: transformation.source_code,
    test_input: transformation.test_input,
    test_output: transformation.test_output,
    status,
    test_error: isUnexplained ? (untestedBecause(transformation) ?? null) : test_error,
    last_error: transformation.last_error,
    version: transformation.version,
    created_by: transformation.created_by,
    created_at: transformation.created_at,
    updated_at: transformation.updated_at,
  };
}

export function presentVersion(version: TransformationVersion): Static<typeof transformationVersion> {
  const { source_code, test_input, test_output, at, by } = version;
  return { version: version.version, source_code, test_input, test_output, created_at: at, created_by: by };
}

export function presentMetrics(
  transformationId: string,
  hours: number,
  hourly: readonly HourlyRuns[],
): Static<typeof transformationMetrics> {
  return {
    transformation_id: transformationId,
    hours,
    ...presentCounts(hourly.map(({ counts }) => counts).reduce(addCounts, {})),
    hourly: hourly.map(({ hour, counts }) => ({ hour_bucket: iso(hour), ...presentCounts(counts) })),
  };
}

function presentCounts(counts: RunCounts) {
  const { runs = 0, errors = 0, dropped = 0, fanned_out = 0, outputs = 0 } = counts;
  const p50_ms = durationQuantile(counts, 0.5) ?? null;
  const p99_ms = durationQuantile(counts, 0.99) ?? null;
  return { runs, errors, dropped, fanned_out, outputs, p50_ms, p99_ms };
}

/** The run of a test: what the pipeline would deliver, or why it would not. */
export type TrialRun = (
  | {
      readonly ok: true;
      readonly events: readonly CanonicalEvent[];
      readonly trial: TrialEvent;
      readonly given: JsonObject;
    }
  | {
      readonly ok: false;
      readonly kind: string;
      readonly message: string;
      readonly line?: number;
      readonly column?: number;
    }
) &
  Pick<SandboxResult, 'logs' | 'durationMs' | 'loadMs'>;

/** `output` has the form of `test_output`: one event, several, or null for none. */
export function presentRun(run: TrialRun): Static<typeof testResult> {
  const { ok, durationMs, loadMs } = run;
  const ran = { logs: [...run.logs], duration_ms: durationMs, compile_ms: loadMs, run_ms: durationMs };
  if (!run.ok) {
    const { line = null, column = null } = run;
    return { ok, output: null, error: failureOf(run), line, column, ...ran };
  }
  const outputs = run.events.map((event) => asWritten(event, run.given, run.trial));
  const output = outputs.length > 1 ? outputs : (outputs[0] ?? null);
  return { ok, output, error: null, line: null, column: null, ...ran };
}

/** The part of a test that is missing; undefined for a complete test. */
export function untestedBecause({
  test_input,
  test_output,
}: Pick<Transformation, 'test_input' | 'test_output'>): string | undefined {
  const absent = [
    ...(test_input === null ? ['test_input'] : []),
    ...(test_output === null ? ['test_output'] : []),
  ];
  if (absent.length === 0) return undefined;
  return `not tested: there is no ${absent.join(' and no ')}; it becomes active once it gives test_output for test_input`;
}

/** The error of a failed run: `<kind>: <message>`. */
export function failureOf({ kind, message }: { readonly kind: string; readonly message: string }): string {
  return `${kind}: ${message}`;
}
