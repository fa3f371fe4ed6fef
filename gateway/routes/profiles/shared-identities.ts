import {
  claimWrite,
  type IdentityClaim,
  iso,
  isSetAside,
  messageOf,
  type Organization,
  type ProfileWrite,
  setAsideOperation,
  TributaryError,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { authorOf } from '../../authentication/caller.ts';
import type { GatewayDependencies } from '../../dependencies.ts';

/**
 * Lets the owners of identities know who else came with them, and records those that are set aside by it. The caller is
 * refused anyway: what fails here is made up for by the next call.
 */
export async function noteClaims(
  request: FastifyRequest,
  {
    profiles,
    recordProfileOperation,
    clock,
    logger,
    metrics,
  }: Pick<GatewayDependencies, 'profiles' | 'recordProfileOperation' | 'clock' | 'logger' | 'metrics'>,
  { id: organization_id }: Organization,
  write: ProfileWrite,
  claims: readonly IdentityClaim[],
): Promise<void> {
  const recorded = {
    organization_id,
    at: iso(clock()),
    by: authorOf(request.caller),
    from: { address: request.clientAddress.text, request_id: request.id },
  };
  try {
    for (const claim of claims) {
      const { identity } = claim;
      const told = await profiles.upsert(claimWrite(write, claim));
      if (told.kind === 'refused' || !isSetAside(told.profile, identity, write.limits)) continue;
      metrics.count('tributary_profile_identities_set_aside_total', { type: identity.type });
      await recordProfileOperation(setAsideOperation(write, told.profile.ucid, identity, recorded));
    }
  } catch (error) {
    if (!(error instanceof TributaryError && error.retryable)) throw error;
    const fields = { organization: organization_id, request_id: request.id, error: messageOf(error) };
    logger.warn(fields, 'an identity that too many users share is not recorded; the next call tries again');
  }
}
