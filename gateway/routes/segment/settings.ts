import type { WriteKey } from '@tributary/core';

/** The address at which a client reached the gateway. */
export interface Reached {
  readonly protocol: string;
  /** With its port. */
  readonly host: string;
}

/** The configured public address, else that of the request. */
export function reachedAt(publicUrl: string | undefined, { protocol, host }: Reached): Reached {
  if (publicUrl === undefined) return { protocol, host };
  const url = new URL(publicUrl);
  return { protocol: url.protocol.slice(0, -1), host: url.host };
}

const PLAN_OF_ALL = { __default: { enabled: true, integrations: {} } };

/**
 * The settings of analytics.js: events are sent to the address that the settings came from, nothing is blocked, no
 * destinations are loaded into the page, and analytics.js does not measure itself.
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

/** The configuration of RudderStack's SDKs: an enabled source without client-side destinations. */
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
