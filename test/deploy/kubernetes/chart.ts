import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { JsonObject } from '@tributary/core';
import { Ajv, type ValidateFunction } from 'ajv';
import { parse, parseAllDocuments } from 'yaml';
import type { Installation } from './installation.ts';

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

/** A part of an OpenAPI description. */
interface Schema {
  readonly [keyword: string]: unknown;
}

interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

interface CustomResource {
  readonly spec: {
    readonly group: string;
    readonly names: { readonly kind: string };
    readonly versions: readonly {
      readonly name: string;
      readonly schema: { readonly openAPIV3Schema: Schema };
    }[];
  };
}

/** Validates an object by its `apiVersion` and `kind`, and refuses unknown fields, as the API server does when told to. */
export function openSchemas({ swagger, customResources }: Installation): (object: JsonObject) => string[] {
  const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true });
  const { definitions } = JSON.parse(readFileSync(swagger, 'utf8')) as {
    readonly definitions: Readonly<Record<string, Schema>>;
  };
  ajv.addSchema({ $id: 'kubernetes', definitions: closed(definitions) });
  const references = new Map<string, Schema>();
  for (const [name, definition] of Object.entries(definitions))
    for (const { group, version, kind } of kindsOf(definition))
      references.set(nameOf(group, version, kind), { $ref: `kubernetes#/definitions/${name}` });
  for (const file of customResources) {
    const { spec } = parse(readFileSync(file, 'utf8')) as CustomResource;
    for (const { name, schema } of spec.versions)
      references.set(nameOf(spec.group, name, spec.names.kind), closed(schema.openAPIV3Schema) as Schema);
  }
  const compiled = new Map<string, ValidateFunction>();
  return (object) => {
    const name = `${String(object.apiVersion)} ${String(object.kind)}`;
    const schema = references.get(name);
    if (schema === undefined) return [`${name} is unknown`];
    const validate = compiled.get(name) ?? ajv.compile(schema);
    compiled.set(name, validate);
    if (validate(object)) return [];
    return (validate.errors ?? []).map(
      ({ instancePath, message, params }) => `${name} ${instancePath} ${message} ${JSON.stringify(params)}`,
    );
  };
}

function kindsOf(definition: Schema): readonly GroupVersionKind[] {
  return (definition['x-kubernetes-group-version-kind'] ?? []) as readonly GroupVersionKind[];
}

function nameOf(group: string, version: string, kind: string): string {
  return `${group === '' ? version : `${group}/${version}`} ${kind}`;
}

/** The schemas in it without room for unknown fields, and with Kubernetes' numbers that may be texts. */
function closed(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(closed);
  if (typeof part !== 'object' || part === null) return part;
  const schema = part as Schema;
  const made = Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [
      key,
      key === 'pattern' ? inJavaScript(value) : closed(value),
    ]),
  );
  if (schema.format === 'int-or-string' || schema['x-kubernetes-int-or-string'] === true)
    return { ...made, type: ['integer', 'string'] };
  const isOpen =
    schema['x-kubernetes-preserve-unknown-fields'] === true || schema.additionalProperties !== undefined;
  const { properties } = schema;
  const describesFields = typeof properties === 'object' && properties !== null && schema.type === 'object';
  return describesFields && !isOpen ? { ...made, additionalProperties: false } : made;
}

/** Go's flag for the rest of a pattern. A field of an object may be called `pattern` too. */
function inJavaScript(pattern: unknown): unknown {
  return typeof pattern === 'string' ? pattern.replace(/\(\?i\)(.*)$/, '(?i:$1)') : closed(pattern);
}
