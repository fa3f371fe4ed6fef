import type { CatalogSource } from '@tributary/core';
import type { Static } from 'typebox';
import type { sourceResource } from './schemas.ts';

export function presentSource(source: CatalogSource): Static<typeof sourceResource> {
  return {
    id: source.id,
    workspace_id: source.workspace_id,
    name: source.name,
    type: source.type,
    description: source.description,
    status: source.status,
    version: source.version,
    created_by: source.created_by,
    created_at: source.created_at,
    updated_at: source.updated_at,
  };
}
