import { execFileSync, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { JsonObject } from '@tributary/core';
import { parseAllDocuments } from 'yaml';

export const CHART = fileURLToPath(new URL('../../../infra/deploy/chart/tributary', import.meta.url));

/** The release whose schemas are installed. */
const KUBERNETES = '1.36.3';

/** An object of Kubernetes, as far as it is read here. */
export interface KubernetesObject extends JsonObject {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels: Readonly<Record<string, string>> };
}

export interface Container {
  readonly name: string;
  readonly args: readonly string[];
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly ports?: readonly { readonly name: string }[];
  readonly securityContext: JsonObject;
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
}

export interface PodSpec {
  readonly containers: readonly Container[];
  readonly terminationGracePeriodSeconds: number;
  readonly securityContext: JsonObject;
  readonly automountServiceAccountToken: boolean;
  readonly enableServiceLinks: boolean;
  readonly volumes: readonly { readonly name: string }[];
}

/** Values on top of a file: `--set-json` of Helm. */
export interface Values {
  readonly file?: string;
  readonly set?: Readonly<Record<string, unknown>>;
}

function argsOf({ file = 'one-group', set = {} }: Values): readonly string[] {
  return [
    // A Helm that was built as a module knows no version of Kubernetes.
    ...['--kube-version', KUBERNETES],
    ...['--values', `${CHART}/examples/${file}.yaml`],
    ...Object.entries(set).flatMap(([path, value]) => ['--set-json', `${path}=${JSON.stringify(value)}`]),
  ];
}

/** The objects that the chart makes of values. */
export function render(helm: string, values: Values): readonly KubernetesObject[] {
  const text = execFileSync(helm, ['template', 'shop', CHART, '--namespace', 'cdp', ...argsOf(values)], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return parseAllDocuments(text)
    .map((document) => {
      if (document.errors.length > 0) throw document.errors[0];
      return document.toJS() as KubernetesObject | null;
    })
    .filter((object) => object !== null);
}

/** The error output of Helm for values that the chart refuses. */
export function refusalOf(helm: string, values: Values): string {
  const { status, stderr } = spawnSync(helm, ['template', 'shop', CHART, ...argsOf(values)], {
    encoding: 'utf8',
  });
  if (status === 0) throw new Error('the values were taken');
  return stderr;
}

export function lint(helm: string, values: Values): string {
  const { status, stdout, stderr } = spawnSync(helm, ['lint', '--strict', CHART, ...argsOf(values)], {
    encoding: 'utf8',
  });
  return status === 0 ? '' : stdout + stderr;
}

/** The labels and the specification of the pods that an object makes; undefined for one that makes none. */
export function podsOf(
  object: KubernetesObject,
): { readonly labels: Readonly<Record<string, string>>; readonly spec: PodSpec } | undefined {
  if (object.kind !== 'Deployment' && object.kind !== 'Job') return undefined;
  const { template } = object.spec as unknown as {
    readonly template: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> };
      readonly spec: PodSpec;
    };
  };
  return { labels: template.metadata.labels, spec: template.spec };
}
