import { isDeepStrictEqual } from 'node:util';
import {
  type Json,
  type JsonObject,
  newId,
  type Sandbox,
  type SandboxProgram,
  type SandboxResult,
  type Transformation,
  transformationInput,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import type { GatewayDependencies } from '../../dependencies.ts';
import { invalidRequest } from '../../errors/api-error.ts';
import { checkVersion, entityOf, isAlready, propose } from '../../resources/catalog-entities.ts';
import { failureOf, untestedBecause } from './transformation-resource.ts';

type Tested = Pick<Transformation, 'source_code' | 'test_input' | 'test_output'>;

/** The result of a test. */
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
export function evaluateRun(result: SandboxResult, output: JsonObject | readonly JsonObject[]): TestStatus {
  const error = result.ok ? differenceFrom(result.outputs, output) : failureOf(result);
  return error === undefined
    ? { status: 'active', test_error: null, last_error: null }
    : { status: 'draft', test_error: error.slice(0, MAX_ERROR), last_error: null };
}

function differenceFrom(
  outputs: readonly string[],
  expected: JsonObject | readonly JsonObject[],
): string | undefined {
  const actual = outputs.map((text) => JSON.parse(text) as Json);
  // As JSON text and back: -0 is 0.
  const wanted = JSON.parse(JSON.stringify(isList(expected) ? expected : [expected])) as Json[];
  if (actual.length !== wanted.length)
    return `output: returned ${count(actual.length)}, test_output has ${count(wanted.length)}`;
  const difference = firstDifference(actual, wanted);
  if (difference === undefined) return undefined;
  const shown = isList(expected) ? difference : difference.replace(/^\/0/, '');
  return `output: differs from test_output${shown === '' ? '' : ` at ${shown}`}`;
}

function isList(output: JsonObject | readonly JsonObject[]): output is readonly JsonObject[] {
  return Array.isArray(output);
}

function count(events: number): string {
  return events === 1 ? '1 event' : `${events} events`;
}

/** The time of a test whose event has no `received_at`. */
const TEST_TIME = '2026-01-01T00:00:00.000Z';

/** Runs a program once on an event, with a context like that of production. Deterministic for a given event. */
export async function runOnce(
  sandbox: Sandbox,
  program: SandboxProgram,
  event: JsonObject,
  workspaceId: string,
): Promise<SandboxResult> {
  const context = {
    workspace_id: workspaceId,
    rule_id: null,
    rule_name: null,
    environment: event.environment === 'production' ? 'production' : 'development',
    contract: { outcome: 'accepted', id: null, version: null },
  } as const;
  const { received_at, message_id } = event;
  const identity = {
    message_id: typeof message_id === 'string' ? message_id : '',
    received_at: typeof received_at === 'string' ? received_at : TEST_TIME,
  };
  const input = transformationInput(JSON.stringify(event), context, identity);
  const [result] = await sandbox.run(program, [input], { captureLogs: true });
  if (result === undefined) throw new Error('the sandbox returned no result for the event');
  return result;
}

/** Makes a new program of the source each time, so that earlier runs do not influence a test. */
export function trialOf(source: string, workspaceId: string): SandboxProgram {
  return { id: `trial:${newId()}`, source, owner: workspaceId };
}

/** JSON pointer to the first difference of two JSON values; undefined when they are equal. */
export function firstDifference(actual: Json, expected: Json, path = ''): string | undefined {
  if (isDeepStrictEqual(actual, expected)) return undefined;
  if (!isContainer(actual) || !isContainer(expected)) return path;
  if (Array.isArray(actual) !== Array.isArray(expected)) return path;
  for (const key of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
    const pointer = `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
    const [inActual, inExpected] = [memberOf(actual, key), memberOf(expected, key)];
    if (inActual === undefined || inExpected === undefined) return pointer;
    const found = firstDifference(inActual, inExpected, pointer);
    if (found !== undefined) return found;
  }
  return path;
}

type Container = readonly Json[] | { readonly [key: string]: Json };

function isContainer(value: Json): value is Container {
  return typeof value === 'object' && value !== null;
}

function memberOf(container: Container, key: string): Json | undefined {
  return Object.hasOwn(container, key) ? (container as { readonly [key: string]: Json })[key] : undefined;
}

/** The fields of a change. */
type Replacement = Pick<Transformation, 'source_code' | 'test_input' | 'test_output'> &
  Partial<Pick<Transformation, 'name' | 'description'>>;

/**
 * Tests a transformation with other fields and replaces them; an unchanged one appends no fact. Returns the current
 * transformation. 412 and 409 as for every change, and 409 when it would no longer be `active` while an enabled rule uses
 * it.
 */
export async function replace(
  request: FastifyRequest,
  dependencies: GatewayDependencies,
  stored: Transformation,
  fields: Replacement,
): Promise<Transformation> {
  checkVersion(request, stored);
  const data = { ...fields, ...(await testStatusOf(dependencies.sandbox, fields, request.workspace.id)) };
  if (!(await isAlready(request, dependencies, 'transformation', stored, data)))
    await propose(request, dependencies, {
      type: 'transformation.updated',
      entity: stored.id,
      expected_version: stored.version,
      data,
    });
  return entityOf(request, dependencies, 'transformation', stored.id);
}
