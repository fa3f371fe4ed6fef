import {
  type Addressed,
  type AddressedEntity,
  type Alerts,
  addressesOfWorkspace,
  type CatalogView,
  isConfirmedAddress,
  isConfirmedByLink,
  iso,
  newId,
  unconfirmedAddress,
  type Workspace,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import type { GatewayDependencies, Routes } from '../dependencies.ts';
import { invalidRequest, notFound } from '../errors/api-error.ts';
import { entityNamed } from '../resources/catalog-entities.ts';
import {
  boolean,
  closed,
  email,
  nullable,
  oneOf,
  operation,
  optional,
  readEmail,
  string,
} from '../resources/schemas.ts';

const channel = string(
  'A destination of the workspace, which notices are delivered to, as `track` events.',
  'uuid',
);

/** The recipients of a destination's health alerts, as clients write them. */
export const alertsBody = closed(
  {
    enabled: optional(boolean('Whether alerts are sent. Default true.')),
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

const ADDRESS_STATES = ['confirmed', 'pending'] as const;

const addressStatus = (description: string) => oneOf(ADDRESS_STATES, description);

export const emailStatus = nullable(
  addressStatus(
    '`pending`: until the link that was sent to the address is confirmed, notices go as if it were not set. Null without an address.',
  ),
);

interface AddressIn extends Addressed {
  readonly email: string | null | undefined;
  readonly organizationId: string;
  readonly workspaceId?: string;
}

export function statusOf(state: CatalogView, { email, ...address }: AddressIn): Static<typeof emailStatus> {
  if (email == null) return null;
  return isConfirmedAddress(state, { email, ...address }) ? 'confirmed' : 'pending';
}

export function statusIn(
  state: CatalogView,
  workspaceId: string,
  email: string | null | undefined,
  { confirmation }: Addressed,
): Static<typeof emailStatus> {
  const organizationId = state.workspace(workspaceId)?.organization_id ?? '';
  return statusOf(state, { email, confirmation, organizationId, workspaceId });
}

export function addressIn(
  { id: workspaceId, organization_id: organizationId }: Pick<Workspace, 'id' | 'organization_id'>,
  of: { readonly email: string | null } | null,
) {
  return { email: of?.email, organizationId, workspaceId };
}

/**
 * The fields of a fact that sets an address, beside the address: with another address than before, the request to confirm it,
 * unless a link has. Also for that of a member, who needs no link, but may be removed later.
 */
export function confirmationOf(
  { catalog, confirmsAddresses = true }: Pick<GatewayDependencies, 'catalog' | 'confirmsAddresses'>,
  { email, organizationId }: Omit<AddressIn, 'confirmation'>,
  stored?: AddressIn['email'],
  { confirmation }: Addressed = {},
): Addressed {
  if (email == null || email === stored)
    return email == null && confirmation != null ? { confirmation: null } : {};
  if (confirmsAddresses && !isConfirmedByLink(catalog.state, organizationId, email))
    return { confirmation: newId() };
  return confirmation == null ? {} : { confirmation: null };
}

/**
 * The id of a destination that notices are delivered to; null for none. 400 for one that is missing, and for a warehouse.
 */
export function channelIn(
  state: Pick<CatalogView, 'entity'>,
  workspaceId: string,
  stated: string | null | undefined,
  path: string,
): string | null {
  const destination = entityNamed(state, 'destination', workspaceId, stated, path);
  if (destination?.warehouse === true)
    throw invalidRequest({ path, message: 'is a warehouse, which gets no notices' });
  return destination?.id ?? null;
}

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
  const path = '/alerts/destination_id';
  if (ownId !== undefined && alerts.destination_id?.toLowerCase() === ownId)
    throw invalidRequest({ path, message: 'must be another destination' });
  const destination_id = channelIn(state, workspaceId, alerts.destination_id, path);
  const email = alerts.email == null ? null : readEmail(alerts.email, '/alerts/email');
  return { enabled: alerts.enabled ?? true, destination_id, email };
}

const linkBody = closed(
  { email: Type.String({ ...email, description: 'An address that is set there.' }) },
  { title: 'ConfirmationLinkBody', examples: [{ email: 'ops@example.com' }] },
);

const linkAnswer = Type.Object(
  { email: Type.String(), status: addressStatus('`pending`: a mail with the link will be sent to it.') },
  { title: 'ConfirmationLink' },
);

/**
 * `POST .../notice-addresses/links`: sends the link that confirms an address once more. The mail stage bounds how many
 * reach an address.
 */
export const noticeAddressRoutes: Routes = async (app, { catalog, clock, requestMail }) => {
  const schema = { body: linkBody, response: { 202: linkAnswer } };

  app.post(
    '/organizations/:organizationId/notice-addresses/links',
    operation(
      'organization-notice-addresses.confirm',
      'sendOrganizationConfirmationLink',
      'Send the link again that confirms the address of an organization',
      schema,
    ),
    async ({ organization, body }, reply) => {
      const { id, notification_email } = organization;
      const wanted = readEmail(body.email, '/email');
      if (notification_email !== wanted) throw notFound();
      const of = { type: 'organization', id, workspace_id: null } as const;
      return reply.code(202).send(await sendLink(organization.id, wanted, [of]));
    },
  );

  app.post(
    '/workspaces/:workspaceId/notice-addresses/links',
    operation(
      'notice-addresses.confirm',
      'sendConfirmationLink',
      'Send the link again that confirms an address for notices',
      schema,
    ),
    async ({ workspace, body }, reply) => {
      const wanted = readEmail(body.email, '/email');
      const set = [...addressesOfWorkspace(catalog.state, workspace)].filter((each) => each.email === wanted);
      if (set.length === 0) throw notFound();
      const entities = set.map(({ of }) => of);
      return reply.code(202).send(await sendLink(workspace.organization_id, wanted, entities));
    },
  );

  async function sendLink(organization_id: string, wanted: string, entities: readonly AddressedEntity[]) {
    const of = entities.find(
      (entity) => unconfirmedAddress(catalog.state, { organization_id, of: entity }) !== undefined,
    );
    if (of === undefined) return { email: wanted, status: 'confirmed' } as const;
    await requestMail({ kind: 'confirmation', id: newId(), at: iso(clock()), organization_id, of });
    return { email: wanted, status: 'pending' } as const;
  }
};
