import {
  type CanonicalEvent,
  expectedEvent,
  InvalidInput,
  type Json,
  type JsonObject,
  newId,
  parseExact,
  type Sandbox,
  type SandboxProgram,
  type SandboxResult,
  type Transformation,
  type TrialEvent,
  transformationInput,
  transformedFrom,
  trialEvent,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import type { GatewayDependencies } from '../dependencies.ts';
import { conflict, invalidRequest } from '../errors/api-error.ts';
import { checkVersion, update } from '../resources/catalog-entities.ts';

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

type Tested = Pick<Transformation, 'source_code' | 'test_input' | 'test_output'>;

type TestStatus = Pick<Transformation, 'status' | 'test_error' | 'last_error'>;

const MAX_ERROR = 1_000;

/**
 * The status of a transformation after a change: `active` when its test passes, else `draft`, also without a test. 400
 * for source code that does not compile.
 */
export async function testStatusOf(
  sandbox: Sandbox,
  tested: Tested,
  workspaceId: string,
): Promise<TestStatus> {
  const program = trialOf(tested.source_code, workspaceId);
  const fault = await sandbox.check(program);
  if (fault !== undefined) throw invalidRequest({ path: '/source_code', message: fault.message });
  const { test_input: input, test_output: output } = tested;
  if (input === null || output === null)
    return { status: 'draft', test_error: untestedBecause(tested) ?? null, last_error: null };
  const result = await runOnce(sandbox, program, input, workspaceId);
  return evaluateRun(result, output);
}

/** Evaluates the run of a test. Results are compared as JSON, regardless of the order of members. */
function evaluateRun(run: TrialRun, output: JsonObject | readonly JsonObject[]): TestStatus {
  const error = run.ok ? differenceFrom(run, output) : failureOf(run);
  return error === undefined
    ? { status: 'active', test_error: null, last_error: null }
    : { status: 'draft', test_error: error.slice(0, MAX_ERROR), last_error: null };
}

function differenceFrom(
  { events, trial }: Extract<TrialRun, { ok: true }>,
  expected: JsonObject | readonly JsonObject[],
): string | undefined {
  const wanted = isList(expected) ? expected : [expected];
  if (events.length !== wanted.length)
    return `output: returned ${count(events.length)}, test_output has ${count(wanted.length)}`;
  let read: readonly CanonicalEvent[];
  try {
    read = wanted.map((event) => expectedEvent(event, trial));
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error;
    return `test_output: ${error.message}`;
  }
  const [actual, compared] = [asJson(events), asJson(read)];
  const difference = firstDifference(actual, compared);
  if (difference === undefined) return undefined;
  const shown = isList(expected) ? difference : difference.replace(/^\/0/, '');
  const [returned, meant] = [valueAt(actual, difference), valueAt(compared, difference)];
  return `output: differs from test_output${shown === '' ? '' : ` at ${shown}`}: returned ${returned}, expected ${meant}`;
}

/** As JSON text and back: -0 is 0. Numbers keep their digits. */
function asJson(events: readonly CanonicalEvent[]): Json {
  return parseExact<Json>(JSON.stringify(events));
}

const SHOWN_VALUE = 100;

function valueAt(value: Json, pointer: string): string {
  let found: Json | undefined = value;
  for (const name of pointer.split('/').slice(1))
    found = memberOf(found as Container, name.replaceAll('~1', '/').replaceAll('~0', '~'));
  const text = found === undefined ? 'nothing' : JSON.stringify(found);
  return text.length > SHOWN_VALUE ? `${text.slice(0, SHOWN_VALUE)}...` : text;
}

function isList(output: JsonObject | readonly JsonObject[]): output is readonly JsonObject[] {
  return Array.isArray(output);
}

function count(events: number): string {
  return events === 1 ? '1 event' : `${events} events`;
}

const NOT_RUN = { logs: [], durationMs: 0, loadMs: 0 };

/**
 * Runs a program once on an event, with the rules of the pipeline and a context like that of production. Deterministic for
 * a given event.
 */
export async function runOnce(
  sandbox: Sandbox,
  program: SandboxProgram,
  event: JsonObject,
  workspaceId: string,
): Promise<TrialRun> {
  let trial: TrialEvent;
  try {
    trial = trialEvent(event, workspaceId);
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error;
    return { ok: false, kind: 'input', message: error.message, ...NOT_RUN };
  }
  const { source } = trial;
  const context = {
    workspace_id: workspaceId,
    rule_id: null,
    rule_name: null,
    environment: source.environment,
    contract: { outcome: 'accepted', id: null, version: null },
  } as const;
  const { message_id } = event;
  const identity = {
    message_id: typeof message_id === 'string' ? message_id : '',
    received_at: source.received_at,
  };
  const text = JSON.stringify(source);
  const [result] = await sandbox.run(program, [transformationInput(text, context, identity)], {
    captureLogs: true,
  });
  if (result === undefined) throw new Error('the sandbox returned no result for the event');
  const { logs, durationMs, loadMs } = result;
  const outcome = transformedFrom(source, result, text);
  return outcome.ok
    ? { ok: true, events: outcome.events, trial, given: event, logs, durationMs, loadMs }
    : { ...(result.ok ? {} : result), ...outcome, logs, durationMs, loadMs };
}

/** Makes a new program of the source each time, so that earlier runs do not influence a test. */
export function trialOf(source: string, workspaceId: string): SandboxProgram {
  return { id: `trial:${newId()}`, source, owner: workspaceId };
}

/** JSON pointer to the first difference of two JSON values; undefined when they are equal. */
function firstDifference(actual: Json, expected: Json, path = ''): string | undefined {
  if (!isContainer(actual) || !isContainer(expected))
    return JSON.stringify(actual) === JSON.stringify(expected) ? undefined : path;
  if (Array.isArray(actual) !== Array.isArray(expected)) return path;
  for (const key of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
    const pointer = `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
    const [inActual, inExpected] = [memberOf(actual, key), memberOf(expected, key)];
    if (inActual === undefined || inExpected === undefined) return pointer;
    const found = firstDifference(inActual, inExpected, pointer);
    if (found !== undefined) return found;
  }
  return undefined;
}

type Container = readonly Json[] | { readonly [key: string]: Json };

function isContainer(value: Json): value is Container {
  return typeof value === 'object' && value !== null && !JSON.isRawJSON(value);
}

function memberOf(container: Container, key: string): Json | undefined {
  return Object.hasOwn(container, key) ? (container as { readonly [key: string]: Json })[key] : undefined;
}

type Replacement = Pick<Transformation, 'source_code' | 'test_input' | 'test_output'> &
  Partial<Pick<Transformation, 'name' | 'description'>>;

/**
 * Tests a transformation with other fields and replaces them; an unchanged one appends no fact. 412 and 409 as for every
 * change, and 409 `test_failed` with the difference when it would no longer be `active` while an enabled rule uses it.
 */
export async function replace(
  request: FastifyRequest,
  dependencies: GatewayDependencies,
  stored: Transformation,
  fields: Replacement,
): Promise<void> {
  checkVersion(request, stored);
  const data = { ...fields, ...(await testStatusOf(dependencies.sandbox, fields, request.workspace.id)) };
  await update(request, dependencies, 'transformation', stored, data, ({ reason, causes }) =>
    // A transformation in use is refused for nothing but a test that fails.
    reason === 'in_use'
      ? conflict('test_failed', causes, [{ path: '/test_output', message: data.test_error ?? '' }])
      : conflict(reason, causes),
  );
}
