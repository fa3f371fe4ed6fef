import type { Transformation } from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import type { GatewayDependencies } from '../../dependencies.ts';
import { checkVersion, entityOf, isAlready, propose } from '../../resources/catalog-entities.ts';
import { standingOf } from './lifecycle.ts';

/** What a change of a transformation may bring. */
export type Replacement = Pick<Transformation, 'source_code' | 'test_input' | 'test_output'> &
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
