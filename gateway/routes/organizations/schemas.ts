import { ORGANIZATION_ROLES } from '@tributary/core';
import { type TSchema, Type } from 'typebox';
import { closed, listOf, name, nullable, oneOf, optional, times, uuid } from '../../resources/schemas.ts';
import { email } from '../../resources/values.ts';

const MAX_REGIONS = 50;

/** A region is a word of the operator's. */
export const region = Type.String({
  pattern: '^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$',
  description: 'Where profiles live: lower-case letters, digits and dashes.',
});

const regions = Type.Unsafe<readonly string[]>({
  type: 'array',
  items: region,
  minItems: 1,
  maxItems: MAX_REGIONS,
  uniqueItems: true,
  description: 'The regions its workspaces may be in.',
} satisfies TSchema);

const notificationEmail = Type.String({ ...email, description: 'Where notices about its profiles go.' });

export const organizationBody = closed(
  {
    name,
    regions: optional(regions),
    notification_email: optional(notificationEmail),
  },
  { title: 'OrganizationBody', examples: [{ name: 'Analytical Engines', regions: ['eu'] }] },
);

/** What is left out of a replacement would be lost: regions have to be told. */
export const organizationReplacement = closed(
  {
    name,
    regions,
    notification_email: optional(notificationEmail),
  },
  {
    title: 'OrganizationReplacement',
    examples: [
      { name: 'Analytical Engines', regions: ['eu', 'us'], notification_email: 'privacy@example.com' },
    ],
  },
);

export const organizationResource = Type.Object(
  {
    id: uuid,
    org_id: Type.Integer({ description: 'The number the profile API calls it by.' }),
    name,
    regions: listOf(Type.String()),
    notification_email: nullable(Type.String()),
    role: oneOf(ORGANIZATION_ROLES, 'What the caller is in it.'),
    ...times,
  },
  { title: 'Organization' },
);

export const organizationList = listOf(organizationResource);
