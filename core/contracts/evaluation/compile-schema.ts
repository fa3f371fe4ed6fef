import type { JsonObject } from '../../event/event.ts';
import { messageOf } from '../../primitives/errors.ts';
import type { SchemaFault } from '../contract.ts';
import { MAX_SCHEMA_BYTES, readDefinition } from '../definition/definition.ts';
import { boundsOf } from '../definition/schema-bounds.ts';
import { readDocument, type SchemaDocument } from '../definition/schema-document.ts';
import { MAX_COMPILE_WORK, type WorkMeter } from '../work.ts';
import { type Checker, compileDocument } from './ajv-compiler.ts';
import { DeclaredFields } from './declared-fields.ts';
import { type QuickCheck, quickCheckOf } from './quick-check.ts';
import { SharedParts } from './shared-parts.ts';

/** Faults shown of one definition. */
const MAX_FAULTS = 100;

/** Bytes of heap of one compiled subschema, code that ran included. */
const WEIGHT_PER_SCHEMA = 1_024;
/** Bytes of heap of one unit of compile work, code that ran included. */
const WEIGHT_PER_WORK = 1_024;
/** Bytes of heap of one value of an enum: it is in a set of the compiled code and in another one of the quick check. */
const WEIGHT_PER_ENUM_VALUE = 100;
/** Bytes of heap per byte of the definition, held by both checks and by the canonical text of parts that contracts share. */
const WEIGHT_PER_BYTE = 4;

/** A contract's schema, ready to evaluate events. */
export interface CompiledSchema {
  readonly checker: Checker;
  readonly declared: DeclaredFields;
  /** Undefined for a schema with keywords that the quick check does not have. */
  readonly quick: QuickCheck | undefined;
  readonly meter: WorkMeter;
  /** How deep a subject may be nested to be evaluated. */
  readonly maxDepth: number;
  /** About how much memory it may grow to, bytes. */
  readonly weight: number;
}

/** Bounds of one compilation, beyond which the definition has a fault. */
export interface CompileBounds {
  readonly maxCompileWork?: number;
  readonly maxBytes?: number;
}

type Compilation =
  | { readonly schema: CompiledSchema; readonly faults: readonly [] }
  | { readonly schema: undefined; readonly faults: readonly SchemaFault[] };

/**
 * Why a `schema_definition` cannot be a contract; empty when it can. A definition of too much compile work cannot, though
 * a contract of it that an earlier release took is still evaluated.
 */
export function checkSchema(definition: JsonObject): readonly SchemaFault[] {
  return compileSchema(definition, new SharedParts(), { maxCompileWork: MAX_COMPILE_WORK }).faults;
}

/** The faults of a definition that show without compiling it as a whole. */
export function schemaFaults(definition: JsonObject): readonly SchemaFault[] {
  const shape = readDefinition(definition, MAX_SCHEMA_BYTES);
  if ('faults' in shape) return shape.faults;
  const shared = new SharedParts();
  const tools = { pattern: (source: string) => shared.pattern(source), maxCompileWork: MAX_COMPILE_WORK };
  return readDocument(shape.read.schema, shape.read.dialect, tools).faults;
}

/**
 * Compiles a `schema_definition` of either form, or returns its faults. Never throws for any JSON object. Schemas that
 * share their parts must evaluate one after the other.
 */
export function compileSchema(
  definition: JsonObject,
  shared = new SharedParts(),
  { maxCompileWork = Number.POSITIVE_INFINITY, maxBytes = MAX_SCHEMA_BYTES }: CompileBounds = {},
): Compilation {
  const shape = readDefinition(definition, maxBytes);
  if ('faults' in shape) return faulty(shape.faults);
  const { schema, dialect, bytes } = shape.read;
  const { document, faults } = readDocument(schema, dialect, {
    pattern: (source) => shared.pattern(source),
    maxCompileWork,
  });
  if (faults.length > 0) return faulty(faults);
  const bounds = boundsOf(document);
  if (bounds.faults.length > 0) return faulty(bounds.faults);
  const { meter } = shared;
  try {
    return {
      schema: {
        checker: compileDocument(document, shared),
        declared: new DeclaredFields(document, meter),
        quick: quickCheckOf(document.root, shared),
        meter,
        maxDepth: bounds.maxDepth,
        weight: weightOf(document, bytes),
      },
      faults: [],
    };
  } catch (thrown) {
    return faulty([{ path: '', message: `does not compile: ${messageOf(thrown).slice(0, 200)}` }]);
  }
}

function faulty(faults: readonly SchemaFault[]): Compilation {
  return { schema: undefined, faults: faults.slice(0, MAX_FAULTS) };
}

/** Patterns count as much as they may grow to. */
function weightOf({ nodes, patterns, enumValues, compileWork }: SchemaDocument, bytes: number): number {
  let weight =
    WEIGHT_PER_BYTE * bytes + WEIGHT_PER_ENUM_VALUE * enumValues + WEIGHT_PER_SCHEMA * nodes.length;
  let work = compileWork;
  for (const pattern of patterns.values()) {
    weight += pattern.bytes;
    work -= pattern.compileWork;
  }
  return Math.ceil(weight + WEIGHT_PER_WORK * work);
}
