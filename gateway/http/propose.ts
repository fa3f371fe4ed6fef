import { causesOf, type Fact, iso, MAX_VALUE_BYTES } from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import type { GatewayDependencies } from '../dependencies.ts';
import { accountOf, authorOf } from './caller.ts';
import { conflict, payloadTooLarge, versionMismatch } from './errors.ts';
import { namesVersion } from './versions.ts';

type WithoutOrigin<F> = F extends Fact
  ? Omit<F, 'v' | 'by' | 'from' | 'at'> & (F['v'] extends 1 ? { readonly v?: 1 } : Pick<F, 'v'>)
  : never;

/** A fact without what the request says about it: who, from where, when. Of version 1 unless it says otherwise. */
export type Proposal = WithoutOrigin<Fact>;

export type ProposalDependencies = Pick<GatewayDependencies, 'catalog' | 'changeLimits' | 'clock'>;

/**
 * Makes a fact of a request part of the catalog. Resolves once this process's own fold applied it, so the caller
 * reads its own write. 409 with the reason when the fold refused it, and, with the quota's name, when there is no room for it; 429 when
 * there were too many changes of late; 412 when that was about a version the caller had named; 413 for
 * more than the log takes: a body that fits may grow when it is written down (`1e20` becomes a 1 and twenty zeros).
 */
export async function propose(
  request: FastifyRequest,
  { catalog, changeLimits, clock }: ProposalDependencies,
  proposal: Proposal,
): Promise<void> {
  const origin = {
    by: authorOf(request.caller),
    from: { address: request.clientAddress.text, request_id: request.id },
    at: iso(clock()),
  };
  const fact: Fact = proposal.v === 2 ? { ...proposal, ...origin } : { ...proposal, v: 1, ...origin };
  const bytes = Buffer.byteLength(JSON.stringify(fact));
  if (bytes > MAX_VALUE_BYTES)
    throw payloadTooLarge(
      '',
      `written down it has ${bytes} bytes, and ${MAX_VALUE_BYTES} at most can be kept`,
    );
  const change = {
    fact,
    bytes,
    account: accountOf(request.caller),
    scope: request.workspace?.id ?? request.organization?.id,
  };
  const verdict = await changeLimits.admit(
    change,
    () => catalog.state,
    () => catalog.propose(fact),
  );
  if (verdict.applied) return;
  if (verdict.conflict === 'version' && namesVersion(request)) throw versionMismatch();
  throw conflict(verdict.conflict, causesOf(catalog.state, fact, verdict.conflict));
}
