import type { Json, JsonObject } from '../../event/event.ts';
import type { SchemaFault } from '../contract.ts';
import { below } from '../json-values.ts';
import { MAX_COMPILE_WORK } from '../work.ts';
import { FORMATS } from './formats.ts';
import {
  type Dialect,
  isExtension,
  isReferenceOnly,
  type SchemaNode,
  type SchemaPart,
  SILENT,
} from './keywords.ts';
import { type Pattern, readPattern } from './patterns.ts';

export const MAX_SUBSCHEMAS = 1_000;
export const MAX_ENUM_VALUES = 10_000;
/** Names in all `required` together. */
export const MAX_REQUIRED_NAMES = 4_000;
/** Instructions of all patterns together: they stay in memory for as long as the contract is in use. */
const MAX_PATTERN_PROGRAM = 50_000;
const PATTERNS_TOO_LARGE = 'must leave the patterns of the schema smaller: their repeats are too many';
const TOO_MUCH_TO_COMPILE = 'must be smaller: its patterns take too much work to compile together';

/** A definition taken apart into its schemas, with references resolved and patterns compiled. */
export interface SchemaDocument {
  readonly root: SchemaNode;
  readonly nodes: readonly SchemaNode[];
  /** Every schema that a reference points at. */
  readonly targets: ReadonlySet<SchemaNode>;
  /** Values of all enums together. */
  readonly enumValues: number;
  /** Every pattern, compiled, by its source. */
  readonly patterns: ReadonlyMap<string, Pattern>;
}

interface ReadTools {
  /** Compiles a pattern, or throws. */
  readonly pattern: (source: string) => Pattern;
  /** Whether the patterns may take more than `MAX_COMPILE_WORK`, as an earlier release allowed. */
  readonly isStored: boolean;
}

/**
 * Reads the schemas of a definition in the dialect's terms, with the faults found. The definition must have the shape of
 * its meta-schema. A step for each pattern, which may take some ms.
 */
export function* readDocument(
  definition: JsonObject,
  dialect: Dialect,
  tools: ReadTools,
): Generator<undefined, { readonly document: SchemaDocument; readonly faults: readonly SchemaFault[] }> {
  const reader = new Reader(dialect);
  const root = reader.read(definition, '', BASE_URI);
  const targets = reader.resolve();
  const { nodes, enumValues, faults } = reader;
  const patterns = yield* compilePatterns(reader.sources, tools, faults);
  return { document: { root, nodes, targets, enumValues, patterns }, faults };
}

/** The patterns of a document by their sources; `sources` has the path of each. */
function* compilePatterns(
  sources: ReadonlyMap<string, string>,
  { pattern: compile, isStored }: ReadTools,
  faults: SchemaFault[],
): Generator<undefined, ReadonlyMap<string, Pattern>> {
  const patterns = new Map<string, Pattern>();
  let [size, work] = [0, 0];
  for (const [source, path] of sources) {
    yield;
    const read = readPattern(source, compile, isStored ? MAX_PATTERN_PROGRAM : undefined);
    if ('fault' in read) {
      faults.push({ path, message: read.fault });
      continue;
    }
    patterns.set(source, read.pattern);
    size += read.pattern.size;
    work += read.pattern.compileWork;
    const isTooLarge = size > MAX_PATTERN_PROGRAM;
    if (!isTooLarge && (isStored || work <= MAX_COMPILE_WORK)) continue;
    faults.push({ path, message: isTooLarge ? PATTERNS_TOO_LARGE : TOO_MUCH_TO_COMPILE });
    break;
  }
  return patterns;
}

interface MutableNode extends SchemaNode {
  readonly assertions: Map<string, Json>;
  readonly parts: SchemaPart[];
  readonly refs: SchemaNode[];
}

class Reader {
  readonly nodes: MutableNode[] = [];
  readonly faults: SchemaFault[] = [];
  /** The sources of patterns, each with the path where it stands first. */
  readonly sources = new Map<string, string>();
  enumValues = 0;
  #requiredNames = 0;
  readonly #dialect: Dialect;
  readonly #references = new ReferenceIndex();

  constructor(dialect: Dialect) {
    this.#dialect = dialect;
  }

  /** Reads a schema and those in it. `base`: the URI that identifiers in it are relative to. */
  read(value: JsonObject | boolean, pointer: string, base: string): SchemaNode {
    const node: MutableNode = {
      id: this.nodes.length,
      pointer,
      value,
      assertions: new Map(),
      parts: [],
      declaresFields: declaresFields(value, this.#dialect),
      refs: [],
    };
    this.nodes.push(node);
    if (this.nodes.length === MAX_SUBSCHEMAS + 1) {
      this.#fault('', `must hold at most ${MAX_SUBSCHEMAS} schemas`);
    }
    if (this.nodes.length > MAX_SUBSCHEMAS || typeof value === 'boolean') {
      this.#references.register(node);
      return node;
    }
    const inner = this.#references.enter(node, value, base, this.#dialect, this.faults);
    for (const [name, content] of Object.entries(value)) {
      this.#readKeyword(node, value, name, content, inner);
    }
    return node;
  }

  resolve(): ReadonlySet<SchemaNode> {
    const targets = new Set<SchemaNode>();
    for (const { from, target } of this.#references.resolve(this.faults)) {
      this.nodes[from.id]?.refs.push(target);
      targets.add(target);
    }
    return targets;
  }

  #fault(path: string, message: string): void {
    this.faults.push({ path, message });
  }

  #readKeyword(node: MutableNode, value: JsonObject, name: string, content: Json, base: string): void {
    const path = below(node.pointer, name);
    const keyword = this.#dialect.keywords.get(name);
    if (keyword === undefined) {
      if (!isExtension(name)) this.#fault(path, 'is not a keyword of JSON Schema');
      return;
    }
    // A keyword that is ignored beside a `$ref` may still hold the target of another reference.
    const isIgnored = isReferenceOnly(value, this.#dialect);
    if (!isIgnored) this.#readAssertion(node, name, content, path);
    const { applies } = keyword;
    for (const [key, schema] of this.#schemasUnder(name, content)) {
      const child = this.read(schema, key === undefined ? path : below(path, key), base);
      const modern = this.#modernName(name, value);
      if (isIgnored || applies === 'nowhere' || modern === undefined) continue;
      const part = { keyword: modern, key: key ?? '', applies, node: child };
      node.parts.push(modern === 'prefixItems' ? { ...part, applies: 'member' } : part);
    }
  }

  *#schemasUnder(name: string, content: Json): Iterable<[string | undefined, JsonObject | boolean]> {
    const keyword = this.#dialect.keywords.get(name);
    if (keyword === undefined || keyword.holds === 'nothing') return;
    if (keyword.holds === 'schema' && isSchema(content)) {
      yield [undefined, content];
    } else if (typeof content === 'object' && content !== null) {
      for (const [key, schema] of Object.entries(content)) if (isSchema(schema)) yield [key, schema];
    }
  }

  /** Draft 2020-12 renamed draft-07's `items` of a list to `prefixItems`, and `additionalItems` to `items`. */
  #modernName(name: string, value: JsonObject): string | undefined {
    if (this.#dialect.name === '2020-12') return name;
    if (name === 'items') return Array.isArray(value.items) ? 'prefixItems' : 'items';
    if (name === 'additionalItems') return Array.isArray(value.items) ? 'items' : undefined;
    return name;
  }

  #readAssertion(node: MutableNode, name: string, content: Json, path: string): void {
    if (this.#dialect.keywords.get(name)?.holds === 'nothing' && !SILENT.has(name)) {
      node.assertions.set(name, content);
    }
    if (name === 'dependencies') node.assertions.set(name, nameLists(content));
    if (name === 'pattern' && typeof content === 'string') this.#notePattern(content, path);
    if (name === 'patternProperties' && typeof content === 'object' && content !== null) {
      for (const pattern of Object.keys(content)) this.#notePattern(pattern, below(path, pattern));
    }
    if (name === 'format' && typeof content === 'string' && !FORMATS.has(content)) {
      this.#fault(path, `must be one of the known formats: ${[...FORMATS.keys()].sort().join(', ')}`);
    }
    if (name === 'enum' && Array.isArray(content)) {
      const before = this.enumValues;
      this.enumValues += content.length;
      if (before <= MAX_ENUM_VALUES && this.enumValues > MAX_ENUM_VALUES)
        this.#fault(path, `must leave the values of all enums at ${MAX_ENUM_VALUES} or fewer`);
    }
    if (name === 'required' && Array.isArray(content)) {
      const before = this.#requiredNames;
      this.#requiredNames += content.length;
      if (before <= MAX_REQUIRED_NAMES && this.#requiredNames > MAX_REQUIRED_NAMES)
        this.#fault(path, `must leave the names of all required at ${MAX_REQUIRED_NAMES} or fewer`);
    }
  }

  #notePattern(source: string, path: string): void {
    if (!this.sources.has(source)) this.sources.set(source, path);
  }
}

function isSchema(value: Json | undefined): value is JsonObject | boolean {
  return typeof value === 'boolean' || (typeof value === 'object' && value !== null && !Array.isArray(value));
}

const DECLARES_FIELDS = [
  'properties',
  'patternProperties',
  'additionalProperties',
  'unevaluatedProperties',
] as const;

function declaresFields(schema: JsonObject | boolean, dialect: Dialect): boolean {
  if (typeof schema === 'boolean' || isReferenceOnly(schema, dialect)) return false;
  return DECLARES_FIELDS.some((keyword) => dialect.keywords.has(keyword) && Object.hasOwn(schema, keyword));
}

/** The entries of `dependencies` that list names. */
function nameLists(dependencies: Json): JsonObject {
  const entries = Object.entries(dependencies ?? {}) as [string, Json][];
  return Object.fromEntries(entries.filter(([, value]) => Array.isArray(value)));
}

/** The base of relative identifiers in a document without `$id`. */
const BASE_URI = 'contract://document/';

interface Reference {
  readonly from: SchemaNode;
  readonly keyword: '$ref' | '$dynamicRef';
  readonly ref: string;
  readonly base: string;
}

interface ResolvedReference {
  readonly from: SchemaNode;
  readonly target: SchemaNode;
}

/**
 * Resolves the references of a document within that document alone. The compiler gets no identifiers: nothing is fetched,
 * and contracts with the same `$id` do not affect each other.
 */
class ReferenceIndex {
  readonly #byPointer = new Map<string, SchemaNode>();
  readonly #resources = new Map<string, SchemaNode>();
  readonly #anchors = new Map<string, SchemaNode>();
  /** How often each name of a `$dynamicAnchor` occurs, in all resources. */
  readonly #dynamicAnchors = new Map<string, number>();
  readonly #references: Reference[] = [];

  register(node: SchemaNode): void {
    this.#byPointer.set(node.pointer, node);
    if (node.pointer === '') this.#resources.set(BASE_URI, node);
  }

  /** Registers a schema with its identifiers and references. Returns the base of identifiers inside it. */
  enter(node: SchemaNode, value: JsonObject, base: string, dialect: Dialect, faults: SchemaFault[]): string {
    this.register(node);
    const inner = isReferenceOnly(value, dialect) ? base : this.#identify(node, value, base, faults);
    for (const keyword of ['$ref', '$dynamicRef'] as const) {
      const ref = value[keyword];
      if (typeof ref === 'string') this.#references.push({ from: node, keyword, ref, base: inner });
    }
    return inner;
  }

  resolve(faults: SchemaFault[]): readonly ResolvedReference[] {
    const resolved: ResolvedReference[] = [];
    for (const reference of this.#references) {
      const { from, keyword } = reference;
      const found = this.#find(reference);
      if (typeof found === 'string') faults.push({ path: below(from.pointer, keyword), message: found });
      else resolved.push({ from, target: found });
    }
    return resolved;
  }

  #identify(node: SchemaNode, value: JsonObject, base: string, faults: SchemaFault[]): string {
    let inner = base;
    if (typeof value.$id === 'string') {
      const url = URL.canParse(value.$id, base) ? new URL(value.$id, base) : undefined;
      if (url === undefined) {
        faults.push({ path: below(node.pointer, '$id'), message: 'must be a URI reference' });
      } else if (url.hash.length > 1) {
        this.#name(`${withoutFragment(url)}${url.hash}`, node, '$id', faults);
      } else {
        inner = withoutFragment(url);
        if (this.#resources.has(inner) && this.#resources.get(inner) !== node) {
          faults.push({ path: below(node.pointer, '$id'), message: 'must differ from every other $id' });
        }
        this.#resources.set(inner, node);
      }
    }
    if (typeof value.$anchor === 'string') this.#name(`${inner}#${value.$anchor}`, node, '$anchor', faults);
    const dynamic = value.$dynamicAnchor;
    if (typeof dynamic === 'string') {
      this.#name(`${inner}#${dynamic}`, node, '$dynamicAnchor', faults);
      this.#dynamicAnchors.set(dynamic, (this.#dynamicAnchors.get(dynamic) ?? 0) + 1);
    }
    return inner;
  }

  #name(anchor: string, node: SchemaNode, keyword: string, faults: SchemaFault[]): void {
    if (this.#anchors.has(anchor) && this.#anchors.get(anchor) !== node) {
      faults.push({ path: below(node.pointer, keyword), message: 'must name one schema only' });
    }
    this.#anchors.set(anchor, node);
  }

  #find({ ref, base, keyword }: Reference): SchemaNode | string {
    if (!URL.canParse(ref, base)) return 'must be a URI reference';
    const url = new URL(ref, base);
    const resource = this.#resources.get(withoutFragment(url));
    if (resource === undefined) return 'must not point outside this schema';
    const fragment = decoded(url.hash.slice(1));
    if (fragment === '') return resource;
    if (fragment?.startsWith('/') === true) {
      return this.#byPointer.get(resource.pointer + fragment) ?? 'points at nothing that is a schema';
    }
    const target = this.#anchors.get(withoutFragment(url) + url.hash);
    if (target === undefined) return 'points at nothing that is a schema';
    if (keyword === '$dynamicRef' && (this.#dynamicAnchors.get(fragment ?? '') ?? 0) > 1) {
      return 'must name a $dynamicAnchor that stands once in this schema';
    }
    return target;
  }
}

function withoutFragment(url: URL): string {
  const copy = new URL(url);
  copy.hash = '';
  return copy.href;
}

function decoded(fragment: string): string | undefined {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return undefined;
  }
}
