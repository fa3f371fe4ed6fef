import {
  durationQuantile,
  type JsonObject,
  parseExact,
  type RunCounts,
  type SandboxResult,
  type Transformation,
  type TransformationVersion,
} from '@tributary/core';
import type { Static } from 'typebox';
import type {
  testResult,
  transformationMetrics,
  transformationResource,
  transformationVersion,
} from './schemas.ts';

export function presentTransformation(transformation: Transformation): Static<typeof transformationResource> {
  const { status, test_error } = transformation;
  // A draft without a test was stored without a reason by earlier releases.
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

export function presentFigures(
  transformationId: string,
  hours: number,
  counts: RunCounts,
): Static<typeof transformationMetrics> {
  const { runs = 0, errors = 0, dropped = 0, fanned_out = 0, outputs = 0 } = counts;
  const p50_ms = durationQuantile(counts, 0.5) ?? null;
  const p99_ms = durationQuantile(counts, 0.99) ?? null;
  return {
    transformation_id: transformationId,
    hours,
    runs,
    errors,
    dropped,
    fanned_out,
    outputs,
    p50_ms,
    p99_ms,
  };
}

/** `output` has the form that `test_output` takes: one event, several, or null for none. */
export function presentRun(result: SandboxResult): Static<typeof testResult> {
  const { ok, durationMs, loadMs } = result;
  const ran = { logs: [...result.logs], duration_ms: durationMs, compile_ms: loadMs, run_ms: durationMs };
  if (!result.ok) {
    const { line = null, column = null } = result;
    return { ok, output: null, error: failureOf(result), line, column, ...ran };
  }
  const outputs = result.outputs.map((text) => parseExact<JsonObject>(text));
  const output = outputs.length > 1 ? outputs : (outputs[0] ?? null);
  return { ok, output, error: null, line: null, column: null, ...ran };
}

/** Says what a draft lacks for a test; undefined when it has one. */
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

/** One sentence about a run that failed: `<kind>: <message>`. */
export function failureOf({ kind, message }: Extract<SandboxResult, { ok: false }>): string {
  return `${kind}: ${message}`;
}
