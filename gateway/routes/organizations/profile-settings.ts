import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  isPhoneCountry,
  NO_PROFILE_SETTINGS,
  type Organization,
  type ProfileSettings,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import type { GatewayDependencies } from '../../dependencies.ts';
import { isUnchanged } from '../../http/entities.ts';
import { invalidRequest } from '../../http/errors.ts';
import { propose } from '../../http/propose.ts';
import { closed, errorAnswers, nullable, optional, organizationPathOf } from '../../http/schemas.ts';
import { checkVersion, tagVersion } from '../../http/versions.ts';

const country = Type.String({
  pattern: '^[A-Z]{2}$',
  description:
    'ISO 3166 alpha-2: the country of telephone numbers that name none. Without it only those with `+` or `00` are read.',
});

const settingsBody = closed(
  { default_country: optional(country) },
  { title: 'ProfileSettingsBody', examples: [{ default_country: 'AT' }] },
);

const settingsResource = Type.Object(
  { default_country: nullable(Type.String()) },
  { title: 'ProfileSettings' },
);

/** `/organizations/{id}/profile-settings`: how the identities of the organization's profiles are read. */
export const profileSettingsRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (
  app,
  dependencies,
) => {
  const { catalog } = dependencies;

  app.get(
    '/organizations/:organizationId/profile-settings',
    {
      config: { operation: 'profile-settings.read' },
      schema: {
        operationId: 'readProfileSettings',
        summary: 'Read how an organization identifies people',
        params: organizationPathOf(),
        response: { 200: settingsResource, ...errorAnswers },
      },
    },
    async ({ organization }, reply) => {
      tagVersion(reply, organization);
      return reply.code(200).send(present(organization));
    },
  );

  app.put(
    '/organizations/:organizationId/profile-settings',
    {
      config: { operation: 'profile-settings.update' },
      schema: {
        operationId: 'replaceProfileSettings',
        summary: 'Replace how an organization identifies people',
        description:
          'Holds for what is written, searched and deleted from then on. The version is that of the organization.',
        params: organizationPathOf(),
        body: settingsBody,
        response: { 200: settingsResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const stored = request.organization;
      checkVersion(request, stored);
      const profile_settings = readSettings(request.body);
      const current = () => catalog.state.organization(stored.id);
      if (!(await isUnchanged(dependencies, stored, { profile_settings }, current))) {
        const { id: entity, version: expected_version, name, regions, notification_email } = stored;
        const data = { name, regions, notification_email, profile_settings };
        await propose(request, dependencies, {
          type: 'organization.updated',
          entity,
          expected_version,
          data,
        });
      }
      const organization = current();
      if (organization === undefined)
        throw new Error(`organization ${stored.id} was applied and is not there`);
      tagVersion(reply, organization);
      return reply.code(200).send(present(organization));
    },
  );
};

function present({ profile_settings = NO_PROFILE_SETTINGS }: Organization): Static<typeof settingsResource> {
  return { default_country: profile_settings.default_country ?? null };
}

function readSettings({ default_country }: Static<typeof settingsBody>): ProfileSettings {
  if (default_country != null && !isPhoneCountry(default_country))
    throw invalidRequest({ path: '/default_country', message: 'is no country with telephone numbers' });
  return { default_country: default_country ?? null };
}
