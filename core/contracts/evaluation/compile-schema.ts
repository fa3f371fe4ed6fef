import type { Json, JsonObject } from '../../event/event.ts';
import type { SchemaFault } from '../contract.ts';
import { readDefinition } from '../definition/definition.ts';
import type { SchemaNode } from '../definition/keywords.ts';
import { boundsOf } from '../definition/schema-bounds.ts';
import { readDocument, type SchemaDocument } from '../definition/schema-document.ts';
import { lastOf, type WorkMeter } from '../work.ts';
import { DeclaredFields } from './declared-fields.ts';
import { type Place, SchemaCheck, SharedParts } from './schema-check.ts';

/** Faults shown of one definition. */
const MAX_FAULTS = 100;

/** Bytes of heap of one schema. */
const WEIGHT_PER_SCHEMA = 2_048;
/** Bytes of heap of one value of an enum. */
const WEIGHT_PER_ENUM_VALUE = 100;
/** Bytes of heap per byte of the definition, held by the checks and by the text of parts that contracts share. */
const WEIGHT_PER_BYTE = 4;

/** A contract's schema, ready to evaluate events. */
export interface CompiledSchema {
  /** Adds the violations of a value to a place. Spends from the meter, and throws when that is exhausted. */
  check(value: Json, place: Place): void;
  readonly declared: DeclaredFields;
  /** Each value has one schema, so that a check meets all undeclared fields. */
  readonly isPlain: boolean;
  readonly meter: WorkMeter;
  /** How deep a subject may be nested to be evaluated. */
  readonly maxDepth: number;
  /** About how much memory it may grow to, bytes. */
  readonly weight: number;
}

type Compilation =
  | { readonly schema: CompiledSchema; readonly faults: readonly [] }
  | { readonly schema: undefined; readonly faults: readonly SchemaFault[] };

/**
 * Why a `schema_definition` cannot be a contract; empty when it can. A definition of too much compile work cannot, though
 * a contract of it that an earlier release took is still evaluated. In steps of some ms.
 */
export function* checkSchemaInSteps(definition: JsonObject): Generator<undefined, readonly SchemaFault[]> {
  return (yield* compileSchema(definition, new SharedParts(), false)).faults;
}

export function checkSchema(definition: JsonObject): readonly SchemaFault[] {
  return lastOf(checkSchemaInSteps(definition));
}

/** The faults of a definition that show in its parts. */
export function schemaFaults(definition: JsonObject): readonly SchemaFault[] {
  const shape = readDefinition(definition);
  if ('faults' in shape) return shape.faults;
  const shared = new SharedParts();
  const tools = { pattern: (source: string) => shared.pattern(source), isStored: false };
  return lastOf(readDocument(shape.read.schema, shape.read.dialect, tools)).faults;
}

/**
 * Compiles a `schema_definition` of either form, or returns its faults. Never throws for any JSON object. Schemas that
 * share their parts must evaluate one after the other. `isStored`: an earlier release may have taken it.
 */
export function* compileSchema(
  definition: JsonObject,
  shared = new SharedParts(),
  isStored = true,
): Generator<undefined, Compilation> {
  const shape = readDefinition(definition);
  if ('faults' in shape) return faulty(shape.faults);
  const { schema, dialect, bytes } = shape.read;
  yield;
  const tools = { pattern: (source: string) => shared.pattern(source), isStored };
  const { document, faults } = yield* readDocument(schema, dialect, tools);
  if (faults.length > 0) return faulty(faults);
  const bounds = boundsOf(document);
  if (bounds.fault !== undefined) return faulty([bounds.fault]);
  yield;
  const { meter } = shared;
  const root = new SchemaCheck(document.root, shared);
  return {
    schema: {
      check: (value, place) => root.check(value, place, undefined, undefined),
      declared: new DeclaredFields(document, meter),
      isPlain: document.nodes.every(isPlain),
      meter,
      maxDepth: bounds.maxDepth,
      weight: weightOf(document, bytes),
    },
    faults: [],
  };
}

const PLAIN = new Set(['properties', 'additionalProperties', 'items']);

function isPlain({ parts, refs }: SchemaNode): boolean {
  return refs.length === 0 && parts.every(({ keyword }) => PLAIN.has(keyword));
}

function faulty(faults: readonly SchemaFault[]): Compilation {
  return { schema: undefined, faults: faults.slice(0, MAX_FAULTS) };
}

/** Patterns count as much as they may grow to. */
function weightOf({ nodes, patterns, enumValues }: SchemaDocument, bytes: number): number {
  let weight =
    WEIGHT_PER_BYTE * bytes + WEIGHT_PER_ENUM_VALUE * enumValues + WEIGHT_PER_SCHEMA * nodes.length;
  for (const pattern of patterns.values()) weight += pattern.bytes;
  return Math.ceil(weight);
}
