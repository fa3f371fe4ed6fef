import type { DestinationAlerts } from '@tributary/core';
import type { Static } from 'typebox';
import { readEmail } from '../../http/emails.ts';
import { invalidRequest } from '../../http/errors.ts';
import type { destinationBody } from './schemas.ts';

/**
 * Who is to be told of the destination `ownId`; null where its organization is. 400 for an address that is none, and
 * for a destination that is not there, or that would tell of itself: it cannot while it is bad.
 */
export function alertsIn(
  { alerts }: Static<typeof destinationBody>,
  ownId: string,
  isDestination: (id: string) => boolean,
): DestinationAlerts | null {
  if (alerts == null) return null;
  const named = alerts.destination_id?.toLowerCase() ?? null;
  const path = '/alerts/destination_id';
  if (named === ownId) throw invalidRequest({ path, message: 'must be another destination' });
  if (named !== null && !isDestination(named))
    throw invalidRequest({ path, message: 'is no destination of this workspace' });
  const email = alerts.email == null ? null : readEmail(alerts.email, '/alerts/email');
  return { enabled: alerts.enabled ?? true, destination_id: named, email };
}
