import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** The versions that `.ci/kubernetes` installs. */
const VERSIONS = { kubernetes: 'v1.36.3', keda: 'v2.21.0', operator: 'v0.85.0', helm: 'v3.22.0' } as const;

/** Helm, and the schemas of Kubernetes, KEDA and the Prometheus operator. */
export interface Installation {
  readonly helm: string;
  /** Kubernetes' own OpenAPI description. */
  readonly swagger: string;
  /** Descriptions of custom resources. */
  readonly customResources: readonly string[];
}

/** The installation of `.ci/kubernetes`; undefined without one. */
export function findKubernetes(env: Readonly<Record<string, string | undefined>>): Installation | undefined {
  const { kubernetes, keda, operator, helm } = VERSIONS;
  const folder = join(
    env.XDG_CACHE_HOME ?? join(homedir(), '.cache'),
    'tributary',
    `kubernetes-${kubernetes}-keda-${keda}-operator-${operator}-helm-${helm}`,
  );
  if (!existsSync(folder)) return undefined;
  return {
    helm: join(folder, 'helm'),
    swagger: join(folder, 'swagger.json'),
    customResources: [
      'keda.sh_scaledobjects.yaml',
      'keda.sh_triggerauthentications.yaml',
      'monitoring.coreos.com_podmonitors.yaml',
      'monitoring.coreos.com_prometheusrules.yaml',
    ].map((file) => join(folder, file)),
  };
}
