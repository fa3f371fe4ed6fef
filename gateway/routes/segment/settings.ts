import type { WriteKey } from '@tributary/core';

/** Where a client reached us, as it said so. */
export interface Reached {
  readonly protocol: string;
  /** With its port. */
  readonly host: string;
}

/** Where a client reached us: at the public address where one is configured, else as its request says. */
export function reachedAt(publicUrl: string | undefined, { protocol, host }: Reached): Reached {
  if (publicUrl === undefined) return { protocol, host };
  const url = new URL(publicUrl);
  return { protocol: url.protocol.slice(0, -1), host: url.host };
}

const PLAN_OF_ALL = { __default: { enabled: true, integrations: {} } };

/**
 * What analytics.js loads before it sends: events go back to where the settings came from, nothing is blocked, no
 * destination is loaded into the page, and it does not measure itself.
 */
export function analyticsJsSettings(rawKey: string, { protocol, host }: Reached) {
  return {
    integrations: {
      'Segment.io': {
        apiKey: rawKey,
        apiHost: `${host}/v1`,
        protocol,
        unbundledIntegrations: [],
        addBundledMetadata: true,
        maybeBundledConfigIds: {},
      },
    },
    plan: { track: PLAN_OF_ALL, identify: PLAN_OF_ALL, group: PLAN_OF_ALL },
    edgeFunction: {},
    analyticsNextEnabled: true,
    middlewareSettings: {},
    enabledMiddleware: {},
    metrics: { sampleRate: 0 },
    legacyVideoPluginsEnabled: false,
    remotePlugins: [],
  };
}

const NOT_MEASURED = { errors: { enabled: false }, metrics: { enabled: false } };

/** What RudderStack's SDKs load: a source that is on and has no destinations of its own on the client. */
export function rudderSourceConfig(rawKey: string, key: WriteKey) {
  return {
    source: {
      id: key.source_id ?? key.id,
      name: key.name,
      writeKey: rawKey,
      enabled: true,
      workspaceId: key.workspace_id,
      config: { statsCollection: NOT_MEASURED },
      connections: [],
      destinations: [],
      dataplanes: {},
      updatedAt: key.updated_at,
    },
    isHosted: true,
  };
}
