import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { type AddressedEntity, addressesOfWorkspace, iso, newId, unconfirmedAddress } from '@tributary/core';
import { Type } from 'typebox';
import type { GatewayDependencies } from '../dependencies.ts';
import { notFound } from '../errors/api-error.ts';
import { addressStatus } from '../resources/alerts.ts';
import { closed, errorAnswers, organizationPathOf, pathOf } from '../resources/schemas.ts';
import { email, readEmail } from '../resources/values.ts';

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
export const noticeAddressRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (
  app,
  { catalog, clock, requestMail },
) => {
  const schema = { body: linkBody, response: { 202: linkAnswer, ...errorAnswers } };

  app.post(
    '/organizations/:organizationId/notice-addresses/links',
    {
      config: { operation: 'organization-notice-addresses.confirm' },
      schema: {
        operationId: 'sendOrganizationConfirmationLink',
        summary: 'Send the link again that confirms the address of an organization',
        params: organizationPathOf(),
        ...schema,
      },
    },
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
    {
      config: { operation: 'notice-addresses.confirm' },
      schema: {
        operationId: 'sendConfirmationLink',
        summary: 'Send the link again that confirms an address for notices',
        params: pathOf(),
        ...schema,
      },
    },
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
