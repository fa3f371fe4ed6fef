import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js';
import { _Code } from 'ajv/dist/compile/codegen/code.js';
import type { Json, JsonObject } from '../event/event.ts';
import { DRAFT_2020_12 } from './keywords.ts';
import { ERROR_TOLL, FIELD_TOLL, meteringKeywords, TOLL, type Toll } from './metering.ts';
import type { Pattern } from './patterns.ts';
import type { SchemaDocument } from './schema-document.ts';
import type { SchemaNode, SchemaPart } from './schema-node.ts';
import { fieldTollOf, ownWork, sizeFactor, WORK_PER_CALL } from './schema-work.ts';
import type { SharedParts } from './shared-parts.ts';
import { UNEVALUATED_KEYWORDS } from './unevaluated-keywords.ts';
import { ownKeywords } from './vocabulary.ts';

/** A compiled schema. */
export interface Checker {
  /** The errors of a value, none when it is fine. Spends from the meter, and throws when that is exhausted. */
  errors(value: Json): readonly ErrorObject[];
  /** True for an error that an alternative may still make good; what stands above the alternative reports it. */
  isTentative(error: ErrorObject): boolean;
  readonly patterns: (source: string) => Pattern;
}

const NO_ERRORS: readonly ErrorObject[] = [];

const UNEVALUATED = new Set(['unevaluatedProperties', 'unevaluatedItems']);

/** Keywords under which `false` has a meaning of its own for the compiler. */
const KEEPS_FALSE = new Set(['additionalProperties', 'unevaluatedProperties', 'items', 'unevaluatedItems']);

/**
 * Compiles a checked document. Every contract gets a compiler of its own: without meta-schemas one costs 0.04 ms and
 * is freed with the contract, while a shared one keeps all it ever compiled.
 */
export function compileDocument(document: SchemaDocument, shared: SharedParts): Checker {
  const { patterns } = document;
  const patternOf = (source: string): Pattern => patterns.get(source) ?? shared.pattern(source);
  const emitted = new Emitter(document);
  const ajv = compiler(patternOf, shared);
  // Keeping track of what was evaluated takes quadratic time to compile; most schemas never ask.
  ajv.opts.unevaluated = document.nodes.some(({ parts }) =>
    parts.some(({ keyword }) => UNEVALUATED.has(keyword)),
  );
  const validate = ajv.compile(emitted.schema());
  return {
    errors: (value) => (validate(value) ? NO_ERRORS : (validate.errors ?? NO_ERRORS)),
    isTentative: (error) => error.parentSchema !== undefined && emitted.tentative.has(error.parentSchema),
    patterns: patternOf,
  };
}

function compiler(patternOf: (source: string) => Pattern, { meter, formats }: SharedParts): Ajv2020 {
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
    // Optimising doubles the time to compile and gains nothing that could be measured.
    code: { optimize: false, regExp: Object.assign(patternOf, { code: 'pattern' }) },
  });
  // The stock version copies all that is written so far for each value: minutes for ten thousand of them.
  ajv.scope.scopeRefs = (scopeName, values = {}) =>
    new _Code(
      Object.values(values)
        .flatMap((names) => [...(names ?? [])])
        .map((name) => `const ${name} = ${scopeName}${name.scopePath};`)
        .join(''),
    );
  const own = [...ownKeywords(meter), ...UNEVALUATED_KEYWORDS, ...meteringKeywords(meter, ajv)];
  for (const definition of own) {
    ajv.removeKeyword(String(definition.keyword));
    ajv.addKeyword(definition);
  }
  return ajv;
}

type Emitted = JsonObject | boolean;

/** `work`: what applying it once takes, without what may be applied many times. */
interface Written<Schema> {
  readonly schema: Schema;
  readonly work: number;
}

/** Writes a document as the compiler takes it: no identifiers, each target of a reference once under `$defs`. */
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
      this.#called(node, this.#whole(node)),
    ]);
    const { root } = this.#document;
    const schema = this.#called(root, this.#inPlace(root));
    return { ...(typeof schema === 'object' ? schema : {}), $defs: Object.fromEntries(targets) };
  }

  /** What a compiled function is made of. */
  #called(node: SchemaNode, { schema, work }: Written<Emitted>): Emitted {
    return this.#metered(node, schema, { work, isCalled: true });
  }

  /** A schema where it stands: a reference when it is the target of one. */
  #inPlace(node: SchemaNode): Written<Emitted> {
    return this.#document.targets.has(node)
      ? { schema: { $ref: reference(node) }, work: WORK_PER_CALL }
      : this.#whole(node);
  }

  #metered(node: SchemaNode, schema: Emitted, { work, isCalled }: Toll): Emitted {
    if (typeof schema !== 'object') return schema;
    const toll = { work: work * this.#factor, isCalled };
    return this.#mark(node, { ...schema, [TOLL]: toll, [ERROR_TOLL]: this.#factor });
  }

  #whole(node: SchemaNode): Written<Emitted> {
    if (typeof node.value === 'boolean')
      return { schema: this.#mark(node, node.value || { not: {} }), work: 1 };
    const members = new Map(node.assertions);
    let work = ownWork(node);
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
    const perField = fieldTollOf(node);
    if (perField > 0) members.set(FIELD_TOLL, perField);
    return { schema: this.#mark(node, withProtoDeclared(members)), work };
  }

  #under(keyword: string, parts: readonly SchemaPart[]): Written<Json> {
    let work = 0;
    const schemas = parts.map(({ key, place, tentative, node }): [string, Emitted] => {
      if (node.value === false && KEEPS_FALSE.has(keyword)) return [key, false];
      const written = this.#inPlace(node);
      // What may be applied many times pays each time, and alternatives pay for the errors of those that fail.
      if (place === 'each' || tentative)
        return [key, this.#metered(node, written.schema, { work: written.work, isCalled: false })];
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

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}

/** The schemas that every event must meet wherever they apply, not only as one of several alternatives. */
function definiteNodes(root: SchemaNode): ReadonlySet<SchemaNode> {
  const found = new Set([root]);
  for (const node of found) {
    for (const part of node.parts) if (!part.tentative) found.add(part.node);
    for (const target of node.refs) found.add(target);
  }
  return found;
}

/** The compiler passes over a property named `__proto__`, but not over a pattern for it. */
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
      ...(isObject(patternProperties) ? patternProperties : {}),
      ...Object.fromEntries(proto),
    },
  };
}
