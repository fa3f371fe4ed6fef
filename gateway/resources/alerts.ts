import type { Alerts, CatalogView } from '@tributary/core';
import { type Static, Type } from 'typebox';
import { invalidRequest } from '../errors/api-error.ts';
import { closed, nullable, optional } from './schemas.ts';
import { email, readEmail } from './values.ts';

const channel = Type.String({
  format: 'uuid',
  description: 'A destination of the workspace, which notices are delivered to, as `track` events.',
});

/** The recipients of a destination's health alerts, as clients write them. */
export const alertsBody = closed(
  {
    enabled: optional(Type.Boolean({ description: 'Whether alerts are sent. Default true.' })),
    destination_id: optional(channel),
    email: optional(email),
  },
  {
    description:
      'The recipients of alerts when a destination becomes unhealthy, and when it recovers. Default: those of the workspace, else the `notification_email` of the organization.',
  },
);

export const alertsResource = Type.Object({
  enabled: Type.Boolean(),
  destination_id: nullable(channel),
  email: nullable(email),
});

/**
 * The alerts of a body in their stored form; null when the body has none. 400 for an invalid address, for a missing
 * destination, and for the destination itself (`ownId`), which could not deliver alerts about itself.
 */
export function alertsIn(
  alerts: Static<typeof alertsBody> | null | undefined,
  state: Pick<CatalogView, 'entity'>,
  workspaceId: string,
  ownId?: string,
): Alerts | null {
  if (alerts == null) return null;
  const named = alerts.destination_id?.toLowerCase() ?? null;
  const path = '/alerts/destination_id';
  if (named !== null && named === ownId)
    throw invalidRequest({ path, message: 'must be another destination' });
  if (named !== null && state.entity('destination', workspaceId, named) === undefined)
    throw invalidRequest({ path, message: 'is not a destination of this workspace' });
  const address = alerts.email == null ? null : readEmail(alerts.email, '/alerts/email');
  return { enabled: alerts.enabled ?? true, destination_id: named, email: address };
}
