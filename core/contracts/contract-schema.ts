import type { JsonObject } from '../event/event.ts';
import { messageOf } from '../primitives/errors.ts';
import { type Checker, compileDocument } from './compile.ts';
import type { SchemaFault } from './contract.ts';
import { DeclaredFields } from './declared-fields.ts';
import { deeperThan } from './depth.ts';
import { dialectOf, UNKNOWN_DIALECT } from './dialect.ts';
import { shapeFaults } from './metaschema.ts';
import { type PlainSchema, plainSchemaOf } from './plain-schema.ts';
import { costOf } from './schema-cost.ts';
import { readDocument, type SchemaDocument } from './schema-document.ts';
import { MAX_COMPILE_WORK } from './schema-work.ts';
import { SharedParts } from './shared-parts.ts';
import { fromSpecForm } from './spec-form.ts';
import { unevaluatedFaults } from './unevaluated-faults.ts';
import type { WorkMeter } from './work-meter.ts';

/** Bytes of a definition as JSON. */
export const MAX_SCHEMA_BYTES = 256 * 1024;
export const MAX_SCHEMA_DEPTH = 64;
/** Bytes that one compiled subschema takes, and one unit of the work of compiling it, code that ran included. */
const WEIGHT_PER_SCHEMA = 1_024;
const WEIGHT_PER_WORK = 1_024;
/** Bytes that a value of an enum takes, in a set for the compiled code and in another for the quick look, */
const WEIGHT_PER_ENUM_VALUE = 100;
/** and that a byte of the definition does, in those and in the canonical text that tells what is in common. */
const WEIGHT_PER_BYTE = 4;
/** Faults shown of one definition. */
const MAX_FAULTS = 100;

/** A contract's schema, ready to judge. */
export interface CompiledSchema {
  readonly checker: Checker;
  readonly declared: DeclaredFields;
  /** Absent when the schema is not that simple. */
  readonly plain: PlainSchema | undefined;
  readonly meter: WorkMeter;
  /** How deep a subject may be nested to be judged. */
  readonly maxDepth: number;
  /** About how much memory it may come to hold, bytes. */
  readonly weight: number;
  readonly compileWork: number;
}

/** What compiling may cost; beyond it the definition has a fault. */
export interface CompileBounds {
  readonly maxCompileWork?: number;
  readonly maxBytes?: number;
}

type Compilation =
  | { readonly schema: CompiledSchema; readonly faults: readonly [] }
  | { readonly schema: undefined; readonly faults: readonly SchemaFault[] };

function faulty(faults: readonly SchemaFault[]): Compilation {
  return { schema: undefined, faults: faults.slice(0, MAX_FAULTS) };
}

/**
 * Compiles a `schema_definition` of either form, or says why not. Never throws for any JSON object. Schemas that share
 * their parts must judge one after the other.
 */
export function compileSchema(
  definition: JsonObject,
  shared = new SharedParts(),
  { maxCompileWork = Number.POSITIVE_INFINITY, maxBytes = MAX_SCHEMA_BYTES }: CompileBounds = {},
): Compilation {
  const size = sizeOf(definition, maxBytes);
  if (typeof size !== 'number') return faulty([size]);
  const dialect = dialectOf(definition);
  if (dialect === undefined) return faulty([UNKNOWN_DIALECT]);
  const schema = fromSpecForm(definition);
  const shapes = shapeFaults(schema, dialect);
  if (shapes.length > 0) return faulty(shapes);
  const { document, faults } = readDocument(schema, dialect, {
    pattern: (source) => shared.pattern(source),
    maxCompileWork,
  });
  if (faults.length > 0) return faulty(faults);
  const cost = costOf(document);
  if (cost.faults.length > 0) return faulty(cost.faults);
  const unevaluated = unevaluatedFaults(document);
  if (unevaluated.length > 0) return faulty(unevaluated);
  const { meter } = shared;
  try {
    const checker = compileDocument(document, shared);
    const declared = new DeclaredFields(document, checker.patterns, meter);
    const texts = WEIGHT_PER_BYTE * size + WEIGHT_PER_ENUM_VALUE * document.enumValues;
    const weight = texts + weightOf(document);
    const plain = plainSchemaOf(document.root, shared);
    return {
      schema: {
        checker,
        declared,
        plain,
        meter,
        maxDepth: cost.maxDepth,
        weight,
        compileWork: document.compileWork,
      },
      faults: [],
    };
  } catch (thrown) {
    return faulty([{ path: '', message: `does not compile: ${messageOf(thrown).slice(0, 200)}` }]);
  }
}

/** Without its texts; patterns count as what they may come to hold. */
function weightOf({ nodes, patterns, compileWork }: SchemaDocument): number {
  let [weight, work] = [WEIGHT_PER_SCHEMA * nodes.length, compileWork];
  for (const pattern of patterns.values()) {
    weight += pattern.bytes;
    work -= pattern.compileWork;
  }
  return Math.ceil(weight + WEIGHT_PER_WORK * work);
}

/**
 * Why a `schema_definition` cannot be a contract; empty when it can. One that takes too much work to compile cannot,
 * though such a contract of an earlier release is still evaluated.
 */
export function checkSchema(definition: JsonObject): readonly SchemaFault[] {
  return compileSchema(definition, new SharedParts(), { maxCompileWork: MAX_COMPILE_WORK }).faults;
}

/** Bytes of a definition as JSON, or why they are too many. */
function sizeOf(definition: JsonObject, maxBytes: number): number | SchemaFault {
  if (deeperThan(definition, MAX_SCHEMA_DEPTH)) {
    return { path: '', message: `must be nested at most ${MAX_SCHEMA_DEPTH} deep` };
  }
  const bytes = Buffer.byteLength(JSON.stringify(definition));
  if (bytes <= maxBytes) return bytes;
  return { path: '', message: `must be at most ${maxBytes / 1024} KiB of JSON` };
}
