import { WORKSPACE_ROLES } from '@tributary/core';
import { Type } from 'typebox';
import { alertsBody, alertsResource } from '../../resources/alerts.ts';
import { pageQuery } from '../../resources/pagination.ts';
import { closed, listOf, name, nullable, oneOf, optional, times, uuid } from '../../resources/schemas.ts';

export const workspaceBody = closed(
  {
    name,
    organization_id: optional(
      Type.String({ format: 'uuid', description: 'Default: a new organization of the same name, yours.' }),
    ),
    region: optional(
      Type.String({ minLength: 1, maxLength: 50, description: 'One of the organization’s. Default `eu`.' }),
    ),
  },
  { title: 'WorkspaceBody', examples: [{ name: 'Shop' }] },
);

/** What is left out of a replacement would be lost: the region has to be told. */
export const workspaceReplacement = closed(
  {
    name,
    region: Type.String({
      minLength: 1,
      maxLength: 50,
      description: 'Another one than now: for admins of the organization, by ID token.',
    }),
    alerts: optional(alertsBody),
  },
  { title: 'WorkspaceReplacement', examples: [{ name: 'Shop', region: 'eu' }] },
);

const status = oneOf(['active', 'archived']);

export const workspaceQuery = closed({ ...pageQuery, status: Type.Optional(status) });

export const workspaceResource = Type.Object(
  {
    id: uuid,
    name,
    organization_id: uuid,
    region: Type.String({ description: 'Where its profiles live.' }),
    status,
    alerts: nullable(alertsResource),
    role: oneOf(WORKSPACE_ROLES, 'What the caller is in it.'),
    ...times,
  },
  { title: 'Workspace' },
);

export const workspaceList = listOf(workspaceResource);
