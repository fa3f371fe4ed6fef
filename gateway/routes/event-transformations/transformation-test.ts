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

/** What a test decides. */
type Standing = Pick<Transformation, 'status' | 'test_error' | 'last_error'>;

const MAX_ERROR = 1_000;

/**
 * Where a transformation stands once it was written: `active` when it does what its test says, else `draft`, which is
 * also what one without a test is. 400 for a source that does not compile.
 */
export async function standingOf(sandbox: Sandbox, tested: Tested, workspaceId: string): Promise<Standing> {
  const program = trialOf(tested.source_code, workspaceId);
  const fault = await sandbox.check(program);
  if (fault !== undefined) throw invalidRequest({ path: '/source_code', message: fault.message });
  const { test_input: input, test_output: output } = tested;
  if (input === null || output === null)
    return { status: 'draft', test_error: untestedBecause(tested) ?? null, last_error: null };
  const result = await tryOut(sandbox, program, input, workspaceId);
  return judge(result, output);
}

/** What the run of a test says. Results are compared as JSON: the order of members does not count. */
export function judge(result: SandboxResult, output: JsonObject | readonly JsonObject[]): Standing {
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
  const place = firstDifference(actual, wanted);
  if (place === undefined) return undefined;
  const shown = isList(expected) ? place : place.replace(/^\/0/, '');
  return `output: differs from test_output${shown === '' ? '' : ` at ${shown}`}`;
}

function isList(output: JsonObject | readonly JsonObject[]): output is readonly JsonObject[] {
  return Array.isArray(output);
}

function count(events: number): string {
  return events === 1 ? '1 event' : `${events} events`;
}

/** What time it is in a test whose event does not say when it was received. */
const TEST_TIME = '2026-01-01T00:00:00.000Z';

/** Runs a program once on an event, with a context like that of production: the same test always ends the same. */
export async function tryOut(
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
  if (result === undefined) throw new Error('the sandbox answered for no event');
  return result;
}

/** A source as a program of its own each time: nothing that an earlier run left behind decides a test. */
export function trialOf(source: string, workspaceId: string): SandboxProgram {
  return { id: `trial:${newId()}`, source, owner: workspaceId };
}

/** JSON pointer to the first place where two JSON values differ; undefined when they are equal. */
export function firstDifference(actual: Json, expected: Json, path = ''): string | undefined {
  if (isDeepStrictEqual(actual, expected)) return undefined;
  if (!isContainer(actual) || !isContainer(expected)) return path;
  if (Array.isArray(actual) !== Array.isArray(expected)) return path;
  for (const key of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
    const place = `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
    const [inActual, inExpected] = [memberOf(actual, key), memberOf(expected, key)];
    if (inActual === undefined || inExpected === undefined) return place;
    const found = firstDifference(inActual, inExpected, place);
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

/** What a change of a transformation may bring. */
type Replacement = Pick<Transformation, 'source_code' | 'test_input' | 'test_output'> &
  Partial<Pick<Transformation, 'name' | 'description'>>;

/**
 * Gives a transformation other fields, after its test with them said where it stands. Answers what it is then; no fact
 * is made of a change that is none. 412 and 409 as of every change; 409 too when it would leave `active` while an
 * enabled rule names it.
 */
export async function replace(
  request: FastifyRequest,
  dependencies: GatewayDependencies,
  stored: Transformation,
  fields: Replacement,
): Promise<Transformation> {
  checkVersion(request, stored);
  const data = { ...fields, ...(await standingOf(dependencies.sandbox, fields, request.workspace.id)) };
  if (!(await isAlready(request, dependencies, 'transformation', stored, data)))
    await propose(request, dependencies, {
      type: 'transformation.updated',
      entity: stored.id,
      expected_version: stored.version,
      data,
    });
  return entityOf(request, dependencies, 'transformation', stored.id);
}
