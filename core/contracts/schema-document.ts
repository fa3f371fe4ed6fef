import type { Json, JsonObject } from '../event/event.ts';
import type { SchemaFault } from './contract.ts';
import type { Dialect } from './dialect.ts';
import { FORMATS } from './formats.ts';
import { isExtension, SILENT } from './keywords.ts';
import { type Pattern, readPattern } from './patterns.ts';
import { below } from './pointer.ts';
import { ReferenceIndex } from './references.ts';
import type { SchemaNode, SchemaPart } from './schema-node.ts';
import { compileWorkOf } from './schema-work.ts';

export const MAX_SUBSCHEMAS = 1_000;
export const MAX_ENUM_VALUES = 10_000;
/** Characters of compiled code that may list the names asked for beside others: each of them tells the whole list. */
export const MAX_DEPENDENT_TEXT = 4 * 1024 * 1024;
/** Names in all `required` together. */
export const MAX_REQUIRED_NAMES = 4_000;
/** Instructions of all patterns together. */
export const MAX_PATTERN_PROGRAM = 50_000;
export const TOO_MUCH_TO_COMPILE =
  'must be smaller: its schemas, keywords, names and patterns take too much work to compile together';

export interface SchemaDocument {
  readonly root: SchemaNode;
  readonly nodes: readonly SchemaNode[];
  /** Every schema some reference stands for. */
  readonly targets: ReadonlySet<SchemaNode>;
  /** How many values all enums have together. */
  readonly enumValues: number;
  /** Every pattern, compiled, by its source. */
  readonly patterns: ReadonlyMap<string, Pattern>;
  /** What compiling it takes, its patterns included; see `schema-work.ts` for the unit. */
  readonly compileWork: number;
}

export interface ReadTools {
  /** Compiles a pattern, or throws. */
  readonly pattern: (source: string) => Pattern;
  /** A document that takes more to compile has a fault; patterns beyond it are not compiled. */
  readonly maxCompileWork: number;
}

interface MutableNode extends SchemaNode {
  readonly assertions: Map<string, Json>;
  readonly parts: SchemaPart[];
  readonly refs: SchemaNode[];
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

/** Draft-07 heeds nothing beside a `$ref`. */
function declaresFields(schema: JsonObject | boolean, { name, keywords }: Dialect): boolean {
  if (typeof schema === 'boolean' || (name === 'draft-07' && schema.$ref !== undefined)) return false;
  return DECLARES_FIELDS.some((keyword) => keywords.has(keyword) && Object.hasOwn(schema, keyword));
}

/** Of `dependencies`, the entries that list names. */
function nameLists(dependencies: Json): JsonObject {
  const entries = Object.entries(dependencies ?? {}) as [string, Json][];
  return Object.fromEntries(entries.filter(([, value]) => Array.isArray(value)));
}

/**
 * Takes a definition apart into its schemas, in the dialect's terms, and says what is wrong with it. The definition
 * must have the shapes its meta-schema demands.
 */
export function readDocument(
  definition: JsonObject,
  dialect: Dialect,
  tools: ReadTools,
): { readonly document: SchemaDocument; readonly faults: readonly SchemaFault[] } {
  const reader = new Reader(dialect, tools);
  const root = reader.read(definition, '', ReferenceIndex.BASE);
  const targets = reader.resolve();
  const { nodes, enumValues, patterns, faults } = reader;
  const compileWork = nodes.reduce((sum, node) => sum + compileWorkOf(node), reader.patternWork);
  if (compileWork > tools.maxCompileWork && reader.patternWork <= tools.maxCompileWork)
    faults.push({ path: '', message: TOO_MUCH_TO_COMPILE });
  return { document: { root, nodes, targets, enumValues, patterns, compileWork }, faults };
}

class Reader {
  readonly nodes: MutableNode[] = [];
  enumValues = 0;
  readonly faults: SchemaFault[] = [];
  readonly #dialect: Dialect;
  readonly #references = new ReferenceIndex();
  readonly #tools: ReadTools;
  readonly patterns = new Map<string, Pattern>();
  /** Compile work of the patterns. */
  patternWork = 0;
  #patternProgram = 0;
  #dependentText = 0;
  #requiredNames = 0;

  constructor(dialect: Dialect, tools: ReadTools) {
    this.#dialect = dialect;
    this.#tools = tools;
  }

  read(value: JsonObject | boolean, pointer: string, base: string): SchemaNode {
    const id = this.nodes.length;
    const node: MutableNode = {
      id,
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
      this.#references.place(node);
      return node;
    }
    const alone = this.#dialect.name === 'draft-07' && value.$ref !== undefined;
    const inner = this.#references.enter(node, value, base, this.#dialect, this.faults);
    for (const [name, content] of Object.entries(value)) {
      this.#readKeyword(node, value, name, content, inner, alone);
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

  /** `alone`: draft-07 heeds nothing beside a `$ref`; what stands there may still be referred to. */
  #readKeyword(
    node: MutableNode,
    value: JsonObject,
    name: string,
    content: Json,
    base: string,
    alone: boolean,
  ): void {
    const path = below(node.pointer, name);
    const keyword = this.#dialect.keywords.get(name);
    if (keyword === undefined) {
      if (!isExtension(name)) this.#fault(path, 'is not a keyword of JSON Schema');
      return;
    }
    if (!alone) this.#readAssertion(node, name, content, path);
    const { place, tentative } = keyword;
    for (const [key, schema] of this.#schemasUnder(name, content)) {
      const child = this.read(schema, key === undefined ? path : below(path, key), base);
      const known = this.#modernName(name, value);
      if (alone || place === 'aside' || known === undefined) continue;
      const part = { keyword: known, key: key ?? '', place, tentative, node: child };
      node.parts.push(known === 'prefixItems' ? { ...part, place: 'field' } : part);
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
    if (name === 'dependencies' || name === 'dependentRequired') this.#countDependent(content, path);
    if (name === 'pattern' && typeof content === 'string') this.#readPattern(content, path);
    if (name === 'patternProperties' && typeof content === 'object' && content !== null) {
      for (const pattern of Object.keys(content)) this.#readPattern(pattern, below(path, pattern));
    }
    if (name === 'format' && typeof content === 'string' && !FORMATS.has(content)) {
      this.#fault(path, `must be one of the known formats: ${[...FORMATS.keys()].sort().join(', ')}`);
    }
    if (name === 'enum' && Array.isArray(content)) this.#countEnum(content.length, path);
    if (name === 'required' && Array.isArray(content)) this.#countRequired(content.length, path);
  }

  #countRequired(names: number, path: string): void {
    const before = this.#requiredNames;
    this.#requiredNames += names;
    if (before <= MAX_REQUIRED_NAMES && this.#requiredNames > MAX_REQUIRED_NAMES) {
      this.#fault(path, `must leave the names of all required at ${MAX_REQUIRED_NAMES} or fewer`);
    }
  }

  #countEnum(values: number, path: string): void {
    const before = this.enumValues;
    this.enumValues += values;
    if (before <= MAX_ENUM_VALUES && this.enumValues > MAX_ENUM_VALUES) {
      this.#fault(path, `must leave the values of all enums at ${MAX_ENUM_VALUES} or fewer`);
    }
  }

  #countDependent(content: Json, path: string): void {
    const before = this.#dependentText;
    for (const list of Object.values(nameLists(content))) {
      if (Array.isArray(list)) this.#dependentText += list.length * JSON.stringify(list).length;
    }
    if (before <= MAX_DEPENDENT_TEXT && this.#dependentText > MAX_DEPENDENT_TEXT) {
      this.#fault(path, 'must ask for fewer names beside another');
    }
  }

  #readPattern(source: string, path: string): void {
    const { maxCompileWork, pattern: compile } = this.#tools;
    const isTooMuch = this.#patternProgram > MAX_PATTERN_PROGRAM || this.patternWork > maxCompileWork;
    if (isTooMuch || this.patterns.has(source)) return;
    const read = readPattern(source, compile);
    if ('fault' in read) {
      this.#fault(path, read.fault);
      return;
    }
    this.patterns.set(source, read.pattern);
    this.#patternProgram += read.pattern.size;
    this.patternWork += read.pattern.compileWork;
    if (this.#patternProgram > MAX_PATTERN_PROGRAM)
      this.#fault(path, 'must leave the patterns of the schema smaller: their repeats are too many');
    else if (this.patternWork > maxCompileWork) this.#fault(path, TOO_MUCH_TO_COMPILE);
  }
}
