import {
  type CatalogView,
  newId,
  ORGANIZATION_ROLES,
  type Organization,
  type OrganizationRole,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { accountOf, NO_ORGANIZATION } from '../authentication/caller.ts';
import type { Routes } from '../dependencies.ts';
import { conflict, permissionDenied } from '../errors/api-error.ts';
import { applied, checkVersion, isUnchanged, propose, tagged } from '../resources/catalog-entities.ts';
import { catalogList } from '../resources/lists.ts';
import {
  closed,
  email,
  integer,
  listOf,
  name,
  nullable,
  oneOf,
  operation,
  optional,
  readEmail,
  shownAs,
  times,
  uuid,
} from '../resources/schemas.ts';
import { confirmationOf, emailStatus, statusOf } from './notice-addresses.ts';
import { DEFAULT_REGION } from './workspaces.ts';

const MAX_REGIONS = 50;

const REGION = '^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$';

/** Whether a text is a region code, for callers without a request. */
export function isRegion(text: string): boolean {
  return new RegExp(REGION).test(text);
}

const region = Type.String({
  pattern: REGION,
  description: 'Where profiles live: lower-case letters, digits and dashes.',
});

const regions = listOf(region, 'The regions its workspaces may be in.', {
  minItems: 1,
  maxItems: MAX_REGIONS,
  uniqueItems: true,
});

const notificationEmail = Type.String({ ...email, description: 'Where notices about its profiles go.' });

const organizationBody = closed(
  { name, regions: optional(regions), notification_email: optional(notificationEmail) },
  { title: 'OrganizationBody', examples: [{ name: 'Analytical Engines', regions: ['eu'] }] },
);

/** A replacement requires `regions`, as omitted regions would be removed. */
const organizationReplacement = closed(
  { name, regions, notification_email: optional(notificationEmail) },
  {
    title: 'OrganizationReplacement',
    examples: [
      { name: 'Analytical Engines', regions: ['eu', 'us'], notification_email: 'privacy@example.com' },
    ],
  },
);

const organizationResource = Type.Object(
  {
    id: uuid,
    org_id: integer('The number the profile API calls it by.'),
    name,
    regions: listOf(Type.String()),
    notification_email: nullable(Type.String()),
    notification_email_status: emailStatus,
    role: oneOf(ORGANIZATION_ROLES, 'The role of the caller.'),
    ...times,
  },
  { title: 'Organization' },
);

function presentOrganization(
  organization: Organization,
  role: OrganizationRole,
  state: CatalogView,
): Static<typeof organizationResource> {
  return shownAs(organizationResource, organization, {
    notification_email_status: statusOf(state, {
      email: organization.notification_email,
      confirmation: organization.confirmation,
      organizationId: organization.id,
    }),
    role,
  });
}

const organizations = catalogList<Organization>()({
  filters: {},
});

/** `/organizations`: those the caller is a member of, a new one, one by id. */
export const organizationRoutes: Routes = async (app, dependencies) => {
  const { catalog, profiles } = dependencies;

  app.get(
    '/organizations',
    operation('organizations.list', 'listOrganizations', 'List the organizations the caller is a member of', {
      querystring: organizations.querystring,
      response: { 200: listOf(organizationResource) },
    }),
    async (request, reply) => {
      const accountId = accountOf(request.caller);
      const found = organizations.read(request, reply, catalog.state.organizationListing(accountId));
      return found.map((organization) => present(organization, accountId));
    },
  );

  app.post(
    '/organizations',
    operation('organizations.create', 'createOrganization', 'Create an organization', {
      body: organizationBody,
      response: { 201: organizationResource },
    }),
    async (request, reply) => {
      const id = newId();
      const accountId = accountOf(request.caller);
      const { name, regions, notification_email } = request.body;
      const email = addressOf(notification_email);
      await propose(request, dependencies, {
        type: 'organization.created',
        entity: id,
        expected_version: 0,
        data: {
          organization: {
            id,
            name,
            regions: regions ?? [DEFAULT_REGION],
            notification_email: email,
            ...confirmationOf(dependencies, { email, organizationId: id }),
          },
          owner: { account_id: accountId, organization_id: id, role: 'owner' },
        },
      });
      return reply.code(201).send(present(tagged(reply, organizationNow(id)), accountId));
    },
  );

  app.get(
    '/organizations/:organizationId',
    operation('organizations.read', 'readOrganization', 'Read an organization', {
      response: { 200: organizationResource },
    }),
    async ({ organization, organizationRole }, reply) => {
      return presentOrganization(tagged(reply, organization), organizationRole, catalog.state);
    },
  );

  app.put(
    '/organizations/:organizationId',
    operation(
      'organizations.update',
      'replaceOrganization',
      'Replace an organization',
      { body: organizationReplacement, response: { 200: organizationResource } },
      {
        patched: ({ organization, organizationRole }) =>
          presentOrganization(organizationNow(organization.id), organizationRole, catalog.state),
      },
    ),
    async (request, reply) => {
      const stored = organizationNow(request.organization.id);
      checkVersion(request, stored);
      const { name, regions, notification_email } = request.body;
      const email = addressOf(notification_email);
      const address = { email, organizationId: stored.id };
      const fields = {
        name,
        regions,
        notification_email: email,
        ...confirmationOf(dependencies, address, stored.notification_email, stored),
      };
      if (!(await isUnchanged(dependencies, stored, fields, () => catalog.state.organization(stored.id))))
        await replace(request, stored, fields);
      return presentOrganization(
        tagged(reply, organizationNow(stored.id)),
        request.organizationRole,
        catalog.state,
      );
    },
  );

  /**
   * 409 while a removed region holds profiles, which could no longer be found or deleted. A write that was admitted before
   * the change may follow the first check, so a second check restores a region that has profiles by then.
   */
  async function replace(
    request: FastifyRequest,
    stored: Organization,
    data: Pick<Organization, 'name' | 'regions' | 'notification_email' | 'confirmation'>,
  ): Promise<void> {
    const type = 'organization.updated';
    const removed = stored.regions.filter((region) => !data.regions.includes(region));
    const refusal = (regions: readonly string[]) =>
      conflict(
        'in_use',
        regions.map((id) => ({ kind: 'region', id })),
      );
    const used = await withProfiles(stored, removed);
    if (used.length > 0) throw refusal(used);
    await propose(request, dependencies, { type, entity: stored.id, expected_version: stored.version, data });
    const returned = await withProfiles(stored, removed);
    if (returned.length === 0) return;
    const { version: expected_version } = organizationNow(stored.id);
    await propose(request, dependencies, {
      type,
      entity: stored.id,
      expected_version,
      data: { ...data, regions: [...data.regions, ...returned] },
    });
    throw refusal(returned);
  }

  async function withProfiles({ org_id: org }: Organization, regions: readonly string[]) {
    const used: string[] = [];
    for (const region of regions) if (await profiles.holdsProfiles({ org, region })) used.push(region);
    return used;
  }

  const organizationNow = (id: string) => applied(catalog.state.organization(id));

  function present(organization: Organization, accountId: string) {
    const role = catalog.state.organizationRole(accountId, organization.id);
    if (role === undefined) throw permissionDenied(NO_ORGANIZATION);
    return presentOrganization(organization, role, catalog.state);
  }
};

function addressOf(text: string | null | undefined): string | null {
  return text == null ? null : readEmail(text, '/notification_email');
}
