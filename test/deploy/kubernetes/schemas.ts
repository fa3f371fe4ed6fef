import { readFileSync } from 'node:fs';
import type { JsonObject } from '@tributary/core';
import { Ajv, type ValidateFunction } from 'ajv';
import { parse } from 'yaml';
import type { Installation } from './installation.ts';

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
