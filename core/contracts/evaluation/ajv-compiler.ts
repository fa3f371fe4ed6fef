import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js';
import { _Code } from 'ajv/dist/compile/codegen/code.js';
import { isObject, type Json, type JsonObject, objectIn } from '../../event/event.ts';
import { DRAFT_2020_12, type SchemaNode, type SchemaPart } from '../definition/keywords.ts';
import type { SchemaDocument } from '../definition/schema-document.ts';
import { sizeFactor, WORK_PER_CALL, workOfSchema, workPerFieldOf } from '../work.ts';
import {
  CHARGE,
  CHARGE_ERRORS,
  CHARGE_PER_FIELD,
  type Charge,
  meteringKeywords,
  safeKeywords,
  UNEVALUATED_KEYWORDS,
} from './ajv-keywords.ts';
import type { SharedParts } from './shared-parts.ts';

/** A schema compiled by ajv. */
export interface Checker {
  /** The errors of a value, none when it is valid. Spends from the meter, and throws when that is exhausted. */
  errors(value: Json): readonly ErrorObject[];
  /** Whether an error is of an alternative: it is no violation by itself, as another alternative may match. */
  isTentative(error: ErrorObject): boolean;
}

const NO_ERRORS: readonly ErrorObject[] = [];

const UNEVALUATED = new Set(['unevaluatedProperties', 'unevaluatedItems']);

/** Keywords under which `false` has a meaning and an error of its own. */
const KEEPS_FALSE = new Set(['additionalProperties', 'unevaluatedProperties', 'items', 'unevaluatedItems']);

/**
 * Compiles a document without faults. Every contract gets an ajv of its own: without meta-schemas one costs 0.04 ms and is
 * freed with the contract, while a shared one keeps all it ever compiled.
 */
export function compileDocument(document: SchemaDocument, shared: SharedParts): Checker {
  const emitted = new Emitter(document);
  const ajv = ajvWith(shared);
  // Tracking evaluated members takes quadratic time to compile, and most schemas do not need it.
  ajv.opts.unevaluated = document.nodes.some(({ parts }) =>
    parts.some(({ keyword }) => UNEVALUATED.has(keyword)),
  );
  const validate = ajv.compile(emitted.schema());
  return {
    errors: (value) => (validate(value) ? NO_ERRORS : (validate.errors ?? NO_ERRORS)),
    isTentative: (error) => error.parentSchema !== undefined && emitted.tentative.has(error.parentSchema),
  };
}

function ajvWith(shared: SharedParts): Ajv2020 {
  const { meter, formats } = shared;
  const patternOf = (source: string) => shared.pattern(source);
  const ajv = new Ajv2020({
    strict: false,
    strictNumbers: true,
    allErrors: true,
    verbose: true,
    messages: false,
    ownProperties: true,
    inlineRefs: false,
    meta: false,
    validateSchema: false,
    addUsedSchema: false,
    logger: false,
    formats,
    // Optimizing doubles the time to compile and gains nothing measurable.
    code: { optimize: false, regExp: Object.assign(patternOf, { code: 'pattern' }) },
  });
  // The stock version copies all code generated so far for each referenced value: minutes for ten thousand of them.
  ajv.scope.scopeRefs = (scopeName, values = {}) =>
    new _Code(
      Object.values(values)
        .flatMap((names) => [...(names ?? [])])
        .map((name) => `const ${name} = ${scopeName}${name.scopePath};`)
        .join(''),
    );
  const replaced = [...safeKeywords(meter), ...UNEVALUATED_KEYWORDS, ...meteringKeywords(meter, ajv)];
  for (const definition of replaced) {
    ajv.removeKeyword(String(definition.keyword));
    ajv.addKeyword(definition);
  }
  return ajv;
}

type Emitted = JsonObject | boolean;

interface Written<Schema> {
  readonly schema: Schema;
  /** Units of applying it once, without the schemas in it that charge for themselves. */
  readonly work: number;
}

/** Writes a document for ajv: without identifiers, each target of a reference once under `$defs`, with its charges. */
class Emitter {
  readonly tentative = new Set<object>();
  readonly #document: SchemaDocument;
  readonly #definite: ReadonlySet<SchemaNode>;
  readonly #factor: number;

  constructor(document: SchemaDocument) {
    this.#factor = sizeFactor(document.nodes.length);
    this.#document = document;
    this.#definite = definiteNodes(document.root);
  }

  schema(): JsonObject {
    const targets = [...this.#document.targets].map((node): [string, Emitted] => [
      nameOf(node),
      this.#asFunction(node, this.#whole(node)),
    ]);
    const { root } = this.#document;
    const schema = this.#asFunction(root, this.#inPlace(root));
    return { ...(typeof schema === 'object' ? schema : {}), $defs: Object.fromEntries(targets) };
  }

  /** A schema that becomes a compiled function. */
  #asFunction(node: SchemaNode, { schema, work }: Written<Emitted>): Emitted {
    return this.#charged(node, schema, { work, isFunction: true });
  }

  /** A schema where it stands: a reference when it is the target of one. */
  #inPlace(node: SchemaNode): Written<Emitted> {
    return this.#document.targets.has(node)
      ? { schema: { $ref: reference(node) }, work: WORK_PER_CALL }
      : this.#whole(node);
  }

  #charged(node: SchemaNode, schema: Emitted, { work, isFunction }: Charge): Emitted {
    if (typeof schema !== 'object') return schema;
    const charge = { work: work * this.#factor, isFunction };
    return this.#mark(node, { ...schema, [CHARGE]: charge, [CHARGE_ERRORS]: this.#factor });
  }

  #whole(node: SchemaNode): Written<Emitted> {
    if (typeof node.value === 'boolean')
      return { schema: this.#mark(node, node.value || { not: {} }), work: 1 };
    const members = new Map(node.assertions);
    let work = workOfSchema(node);
    for (const [keyword, parts] of Map.groupBy(node.parts, (part) => part.keyword)) {
      const under = this.#under(keyword, parts);
      const given = members.get(keyword);
      members.set(
        keyword,
        isObject(given) && isObject(under.schema) ? { ...given, ...under.schema } : under.schema,
      );
      work += under.work;
    }
    const [first, second] = node.refs.map(reference);
    if (first !== undefined) members.set('$ref', first);
    if (second !== undefined) members.set('allOf', [...listOf(members.get('allOf')), { $ref: second }]);
    const perField = workPerFieldOf(node);
    if (perField > 0) members.set(CHARGE_PER_FIELD, perField);
    return { schema: this.#mark(node, withProtoDeclared(members)), work };
  }

  #under(keyword: string, parts: readonly SchemaPart[]): Written<Json> {
    let work = 0;
    const schemas = parts.map(({ key, applies, tentative, node }): [string, Emitted] => {
      if (node.value === false && KEEPS_FALSE.has(keyword)) return [key, false];
      const written = this.#inPlace(node);
      // A schema for many members charges each time; so does an alternative, whose errors may be dropped later.
      if (applies === 'members' || tentative)
        return [key, this.#charged(node, written.schema, { work: written.work, isFunction: false })];
      work += written.work;
      return [key, written.schema];
    });
    const holds = DRAFT_2020_12.get(keyword)?.holds;
    if (holds === 'map') return { schema: Object.fromEntries(schemas), work };
    const list = schemas.map(([, schema]) => schema);
    return { schema: holds === 'list' ? list : (list[0] ?? true), work };
  }

  #mark<Schema extends Emitted>(node: SchemaNode, schema: Schema): Schema {
    if (typeof schema === 'object' && !this.#definite.has(node)) this.tentative.add(schema);
    return schema;
  }
}

function nameOf(node: SchemaNode): string {
  return `n${node.id}`;
}

function reference(node: SchemaNode): string {
  return `#/$defs/${nameOf(node)}`;
}

function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}

/** The schemas that events must match wherever they apply, not only as one of several alternatives. */
function definiteNodes(root: SchemaNode): ReadonlySet<SchemaNode> {
  const found = new Set([root]);
  for (const node of found) {
    for (const part of node.parts) if (!part.tentative) found.add(part.node);
    for (const target of node.refs) found.add(target);
  }
  return found;
}

/** Ajv ignores a property named `__proto__`, but not a pattern for it. */
function withProtoDeclared(members: ReadonlyMap<string, Json>): JsonObject {
  const schema = Object.fromEntries(members);
  const { properties, patternProperties } = schema;
  if (!isObject(properties)) return schema;
  const declared = Object.entries(properties);
  const proto = declared
    .filter(([name]) => name === '__proto__')
    .map(([, property]) => ['^__proto__$', property]);
  if (proto.length === 0) return schema;
  return {
    ...schema,
    properties: Object.fromEntries(declared.filter(([name]) => name !== '__proto__')),
    patternProperties: {
      ...objectIn(patternProperties),
      ...Object.fromEntries(proto),
    },
  };
}
