import { type Fact, iso, MAX_VALUE_BYTES } from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import type { GatewayDependencies } from '../dependencies.ts';
import { authorOf } from './caller.ts';
import { conflict, payloadTooLarge, versionMismatch } from './errors.ts';
import { namesVersion } from './versions.ts';

type WithoutOrigin<F> = F extends Fact ? Omit<F, 'v' | 'by' | 'from' | 'at'> : never;

/** A fact without what the request says about it: who, from where, when. */
export type Proposal = WithoutOrigin<Fact>;

/**
 * Makes a fact of a request part of the catalog. Resolves once this process's own fold applied it, so the caller
 * reads its own write. 409 when the fold refused it; 412 when that was about a version the caller had named; 413 for
 * more than the log takes: a body that fits may grow when it is written down (`1e20` becomes a 1 and twenty zeros).
 */
export async function propose(
  request: FastifyRequest,
  { catalog, clock }: Pick<GatewayDependencies, 'catalog' | 'clock'>,
  proposal: Proposal,
): Promise<void> {
  const fact: Fact = {
    v: 1,
    ...proposal,
    by: authorOf(request.caller),
    from: { address: request.clientAddress.text, request_id: request.id },
    at: iso(clock()),
  };
  const bytes = Buffer.byteLength(JSON.stringify(fact));
  if (bytes > MAX_VALUE_BYTES)
    throw payloadTooLarge(
      '',
      `written down it has ${bytes} bytes, and ${MAX_VALUE_BYTES} at most can be kept`,
    );
  const verdict = await catalog.propose(fact);
  if (verdict.applied) return;
  throw verdict.conflict === 'version' && namesVersion(request) ? versionMismatch() : conflict();
}
