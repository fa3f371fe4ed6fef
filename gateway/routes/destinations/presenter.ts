import { type Destination, ENVIRONMENTS, type JsonObject } from '@tributary/core';
import type { Static } from 'typebox';
import type { destinationResource } from './schemas.ts';
import { maskSecrets } from './secrets.ts';

/** `generated` are secrets that were made with the destination just now: they are shown this once. */
export function presentDestination(
  destination: Destination,
  secrets: readonly string[],
  generated: JsonObject = {},
): Static<typeof destinationResource> {
  return {
    id: destination.id,
    workspace_id: destination.workspace_id,
    name: destination.name,
    type: destination.type,
    settings: { ...maskSecrets(destination.settings, secrets), ...generated },
    enabled: destination.enabled,
    max_concurrency: destination.max_concurrency ?? null,
    rate_limit_per_second: destination.rate_limit_per_second ?? null,
    paused: destination.paused ?? false,
    paused_because: destination.paused_because ?? null,
    environments: destination.environments ?? ENVIRONMENTS,
    alerts: destination.alerts ?? null,
    version: destination.version,
    created_by: destination.created_by,
    created_at: destination.created_at,
    updated_at: destination.updated_at,
  };
}
