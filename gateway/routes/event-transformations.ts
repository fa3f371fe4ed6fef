import {
  addCounts,
  asWritten,
  durationQuantile,
  type HourlyRuns,
  iso,
  type JsonObject,
  mapConcurrently,
  type RunCounts,
  SANDBOX_LOG_LEVELS,
  type Transformation,
  type TransformationVersion,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { Routes } from '../dependencies.ts';
import { invalidRequest, notFound } from '../errors/api-error.ts';
import { READS_AT_ONCE } from '../limits/turns.ts';
import { entityOf, inPath, tagged } from '../resources/catalog-entities.ts';
import { entityRoutes } from '../resources/entity-routes.ts';
import { byId, byWord, catalogList } from '../resources/lists.ts';
import {
  closed,
  description,
  EXAMPLE_IDS,
  freeObject,
  HOURS,
  hoursText,
  idsText,
  integer,
  listOf,
  lookBack,
  MAX_RESOURCE_BYTES,
  name,
  nullable,
  number,
  oneOf,
  operation,
  optional,
  parseIds,
  parseInteger,
  recordFields,
  resourceFields,
  shownAs,
  string,
  time,
  uuid,
} from '../resources/schemas.ts';
import {
  failureOf,
  replace,
  runOnce,
  type TrialRun,
  testStatusOf,
  trialOf,
  untestedBecause,
} from './transformation-test.ts';

const sourceCode = Type.String({
  minLength: 1,
  maxLength: 256 * 1024,
  description: 'JavaScript: `function transform(event, context)` returns the event, several, or null.',
});

const testInput = freeObject(
  'A canonical event. Fields that every event has are filled in where they are absent, and left out of the output.',
);

/** An object, an array of objects, or null. */
function outputsOf(description: string) {
  return Type.Unsafe<JsonObject | readonly JsonObject[] | null>({
    type: ['object', 'array', 'null'],
    additionalProperties: true,
    items: { type: 'object', additionalProperties: true },
    description,
  });
}

const outputs = outputsOf(
  'The expected result for `test_input`: an event, or an array of events (empty: the event is dropped). Without it, or with null, there is no test.',
);

const transformationBody = closed(
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

const transformationResource = Type.Object(
  {
    ...resourceFields,
    description: nullable(description),
    source_code: Type.String(),
    test_input: nullable(testInput),
    test_output: outputs,
    status: oneOf(['draft', 'active', 'error']),
    test_error: nullable(string('While draft: how its test failed, or which part of a test is missing.')),
    last_error: nullable(string('The last failure that made it `error`.')),
    ...recordFields,
  },
  { title: 'Transformation' },
);

const transformationVersion = Type.Object(
  {
    version: integer(
      'The version that introduced this source and test. Versions by other changes are not listed.',
    ),
    source_code: Type.String(),
    test_input: nullable(testInput),
    test_output: outputs,
    created_at: time,
    created_by: string('The account that wrote it, or `key:` and the API key’s id.'),
  },
  { title: 'TransformationVersion' },
);

const transformationVersionList = listOf(
  transformationVersion,
  'Newest first: the first is the one that runs. The newest 100 are kept, and less where they are large.',
);

const rollbackBody = closed(
  {
    version: Type.Integer({ minimum: 1, description: 'One of `versions`; it comes back as a new one.' }),
  },
  { title: 'RollbackBody', examples: [{ version: 1 }] },
);

const metricsQuery = closed({ hours: hoursText });

const metricsOfSeveralQuery = closed({
  hours: hoursText,
  ids: { ...idsText('Ids of transformations', 'those that do not exist'), examples: EXAMPLE_IDS },
});

const duration = nullable(number('Wall time per event, at most 50 % too high; null without a run.'));

const transformationMetrics = Type.Object(
  {
    transformation_id: uuid,
    hours: Type.Integer(),
    runs: integer('Events it ran on. Repeated runs, after a crash or in the slow queue, are counted again.'),
    errors: integer('Runs that failed.'),
    dropped: integer('Runs that returned no event.'),
    fanned_out: integer('Runs that returned more than one event.'),
    outputs: integer('Events that the runs returned.'),
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
const testBody = nullable(
  closed({ event: optional(freeObject('Default: `test_input`.')), source_code: optional(sourceCode) }),
);

const testResult = Type.Object(
  {
    ok: Type.Boolean(),
    output: outputsOf('One event, several, or null when it was dropped or failed.'),
    error: nullable(string('Why it failed.')),
    line: nullable(integer('Where in the source it failed, from 1, as far as that is known.')),
    column: nullable(Type.Integer()),
    logs: listOf(
      Type.Object({ level: oneOf(SANDBOX_LOG_LEVELS), text: Type.String() }),
      'What `console` wrote: 100 lines of 1,024 characters at most.',
    ),
    duration_ms: number('The same as `run_ms`.'),
    compile_ms: number('How long the source took to compile and load.'),
    run_ms: number('How long the function took for the event.'),
  },
  { title: 'TransformationTrial' },
);

function presentTransformation(transformation: Transformation): Static<typeof transformationResource> {
  const { status, test_error } = transformation;
  // Earlier releases stored a draft without a test without a reason.
  const isUnexplained = status === 'draft' && test_error === null;
  return isUnexplained
    ? { ...transformation, test_error: untestedBecause(transformation) ?? null }
    : transformation;
}

function presentVersion(version: TransformationVersion): Static<typeof transformationVersion> {
  return shownAs(transformationVersion, version, { created_at: version.at, created_by: version.by });
}

function presentMetrics(
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

const transformations = catalogList<Transformation>()({
  filters: {
    status: byWord(['draft', 'active', 'error'], 'Only of this status.', ({ status }) => status),
    created_by: byId('Only those that this account created.', ({ created_by }) => created_by),
  },
});

const path = '/workspaces/:workspaceId/event-transformations';

/** A number keeps its digits within `properties`, `traits` and `context` of `event`, as in an event that is sent. */
const IN_EVENT = 3;

/** `/workspaces/:workspaceId/event-transformations`: JavaScript that is active once it passes its own test. */
export const transformationRoutes: Routes = async (app, dependencies) => {
  const { catalog, sandbox } = dependencies;

  await app.register(
    entityRoutes(dependencies, {
      kind: 'transformation',
      collection: 'event-transformations',
      noun: 'a transformation',
      body: transformationBody,
      bodyLimit: MAX_RESOURCE_BYTES,
      resource: transformationResource,
      list: transformations,
      async create({ workspace }, body) {
        const fields = fieldsOf(body);
        return { fields: { ...fields, ...(await testStatusOf(sandbox, fields, workspace.id)) } };
      },
      replace: (request, body, stored) => replace(request, dependencies, stored, fieldsOf(body)),
      present: presentTransformation,
    }),
  );

  app.post(
    `${path}/:transformationId/test`,
    operation(
      'event-transformations.test',
      'tryTransformation',
      'Run a transformation on an event',
      { body: testBody, response: { 200: testResult } },
      { bodyLimit: MAX_RESOURCE_BYTES, body: 'exact', exactFrom: IN_EVENT },
    ),
    async (request) => {
      const stored = storedOf(request);
      const event = request.body?.event ?? stored.test_input;
      if (event === null)
        throw invalidRequest({ path: '/event', message: 'is required: there is no test_input' });
      const program = trialOf(request.body?.source_code ?? stored.source_code, request.workspace.id);
      const result = await runOnce(sandbox, program, event, request.workspace.id);
      return presentRun(result);
    },
  );

  app.get(
    `${path}/:transformationId/versions`,
    operation(
      'event-transformations.versions',
      'listTransformationVersions',
      'List the versions of a transformation',
      { response: { 200: transformationVersionList } },
    ),
    async (request) => {
      const versions = catalog.state.transformationVersions.of(storedOf(request));
      return versions.toReversed().map(presentVersion);
    },
  );

  app.get(
    `${path}/:transformationId/versions/:version`,
    operation(
      'event-transformations.version',
      'readTransformationVersion',
      'Read a version of a transformation',
      { response: { 200: transformationVersion } },
    ),
    async (request) => {
      const found = versionOf(request, inPath(request, 'version'));
      if (found === undefined) throw notFound();
      return presentVersion(found);
    },
  );

  app.post(
    `${path}/:transformationId/rollback`,
    operation(
      'event-transformations.rollback',
      'rollBackTransformation',
      'Go back to a version of a transformation',
      { body: rollbackBody, response: { 200: transformationResource } },
    ),
    async (request, reply) => {
      const found = versionOf(request, String(request.body.version));
      if (found === undefined)
        throw invalidRequest({ path: '/version', message: 'is not a version of this transformation' });
      const { source_code, test_input, test_output } = found;
      const fields = { source_code, test_input, test_output };
      await replace(request, dependencies, storedOf(request), fields);
      return presentTransformation(tagged(reply, storedOf(request)));
    },
  );

  function versionOf(request: FastifyRequest, version: string) {
    const versions = catalog.state.transformationVersions.of(storedOf(request));
    return versions.find((kept) => String(kept.version) === version);
  }

  function storedOf(request: FastifyRequest) {
    return entityOf(request, dependencies, 'transformation');
  }
};

function fieldsOf(body: Static<typeof transformationBody>) {
  return {
    name: body.name,
    description: body.description ?? null,
    source_code: body.source_code,
    test_input: body.test_input ?? null,
    test_output: body.test_output ?? null,
  };
}

/** `GET .../event-transformations/:transformationId/metrics`: counts of its runs, over all processes. */
export const transformationMetricsRoutes: Routes = async (app, dependencies) => {
  const { catalog, counters, clock } = dependencies;
  const metricsOf = async (workspaceId: string, transformationId: string, hours: number) => {
    const query = { workspaceId, transformationId, ...lookBack(clock(), hours) };
    return presentMetrics(transformationId, hours, await counters.runs(query));
  };

  app.get(
    '/workspaces/:workspaceId/event-transformations/metrics',
    operation(
      'event-transformations.metrics',
      'listTransformationMetrics',
      'Read what the runs of several transformations came to',
      {
        querystring: metricsOfSeveralQuery,
        response: { 200: listOf(transformationMetrics, 'In the order of `ids`.') },
      },
    ),
    async ({ query, workspace }) => {
      const hours = parseInteger(query.hours, HOURS);
      const ids = [...parseIds(query.ids)].filter(
        (id) => catalog.state.entity('transformation', workspace.id, id) !== undefined,
      );
      return mapConcurrently(ids, READS_AT_ONCE, (id) => metricsOf(workspace.id, id, hours));
    },
  );

  app.get(
    '/workspaces/:workspaceId/event-transformations/:transformationId/metrics',
    operation(
      'event-transformations.metrics',
      'readTransformationMetrics',
      'Read what the runs of a transformation came to',
      {
        querystring: metricsQuery,
        response: { 200: transformationMetrics },
      },
    ),
    async (request) => {
      const { id } = entityOf(request, dependencies, 'transformation');
      const hours = parseInteger(request.query.hours, HOURS);
      return await metricsOf(request.workspace.id, id, hours);
    },
  );
};
