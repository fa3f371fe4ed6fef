import type { Json, JsonObject } from '../../event/event.ts';
import type { SchemaNode } from '../definition/keywords.ts';
import type { SchemaDocument } from '../definition/schema-document.ts';
import { below } from '../json-values.ts';
import type { WorkMeter } from '../work.ts';

type Patterns = SchemaDocument['patterns'];

/** Shapes kept; beyond it all are built again. Alternatives inside a recursion can combine without end. */
const MAX_SHAPES = 4_096;

/** Units for a field or an item that is looked up, and the schemas searched for it that are one more. */
const WORK_PER_LOOKUP = 3;
const PARTS_PER_UNIT = 2;
/** Units for a field found undeclared; sixteen characters of its path are one more. */
const WORK_PER_UNDECLARED = 15;
const PATH_SHIFT = 4;

/**
 * The fields a schema declares, at every depth: under `properties`, `patternProperties`, `additionalProperties` and
 * `unevaluatedProperties` of the schema itself, of what it refers to and of every alternative of it. An object whose
 * schema has none of these keywords has free content; under an empty `properties` no field is declared.
 *
 * The schemas that apply at one path of an event are compiled to one `Shape` when an event first has a value there, so an
 * evaluation takes one look-up per field however many alternatives there are.
 */
export class DeclaredFields {
  readonly #shapes = new Map<string, Shape>();
  readonly #document: SchemaDocument;
  readonly #meter: WorkMeter;

  constructor(document: SchemaDocument, meter: WorkMeter) {
    this.#document = document;
    this.#meter = meter;
  }

  /** JSON pointers of the undeclared fields, in their order; fields inside an undeclared one are not looked up. */
  undeclared(subject: JsonObject): readonly string[] {
    const root = this.#rootShape();
    if (allDeclared(subject, root)) return NONE;
    const found: string[] = [];
    collect(subject, root, '', found);
    return found;
  }

  /** A copy without the undeclared fields. The other fields keep their order. */
  without(subject: JsonObject): JsonObject {
    return strip(subject, this.#rootShape()) as JsonObject;
  }

  #rootShape(): Shape {
    if (this.#shapes.size > MAX_SHAPES) this.#shapes.clear();
    return this.shapeOf([this.#document.root]);
  }

  /** The shape of a path where these schemas apply. */
  shapeOf(nodes: readonly SchemaNode[]): Shape {
    const ids = [...new Set(nodes.map((node) => node.id))].sort((a, b) => a - b).join();
    const known = this.#shapes.get(ids);
    if (known !== undefined) return known;
    const shape = new Shape(nodes, this, this.#document.patterns, this.#meter);
    this.#shapes.set(ids, shape);
    return shape;
  }
}

const NONE: readonly string[] = [];

type Container = JsonObject | readonly Json[];

function isContainer(value: Json | undefined): value is Container {
  return typeof value === 'object' && value !== null;
}

function isList(value: Container): value is readonly Json[] {
  return Array.isArray(value);
}

function allDeclared(value: Container, shape: Shape): boolean {
  if (isList(value)) {
    if (shape.freeItems) return true;
    return value.every((item, index) => !isContainer(item) || allDeclared(item, shape.item(index)));
  }
  if (shape.freeFields) return true;
  for (const name in value) {
    const inner = shape.field(name);
    if (inner === undefined) return false;
    const member = value[name];
    if (isContainer(member) && !allDeclared(member, inner)) return false;
  }
  return true;
}

function collect(value: Container, shape: Shape, path: string, found: string[]): void {
  if (isList(value) ? shape.freeItems : shape.freeFields) return;
  for (const name of Object.keys(value)) {
    const inner = isList(value) ? shape.item(Number(name)) : shape.field(name);
    const member = isList(value) ? value[Number(name)] : value[name];
    if (inner === undefined) found.push(shape.undeclared(below(path, name)));
    else if (isContainer(member)) collect(member, inner, below(path, name), found);
  }
}

function strip(value: Container, shape: Shape): Container {
  if (allDeclared(value, shape)) return value;
  if (isList(value)) {
    return value.map((item, index) => (isContainer(item) ? strip(item, shape.item(index)) : item));
  }
  const kept: [string, Json][] = [];
  for (const [name, member] of Object.entries(value)) {
    const inner = shape.field(name);
    if (inner !== undefined) kept.push([name, isContainer(member) ? strip(member, inner) : member]);
  }
  return Object.fromEntries(kept);
}

/** The fields and items that the schemas applied at one path declare together. */
class Shape {
  /** No schema declares fields (or items) here, so any are allowed. */
  readonly freeFields: boolean;
  readonly freeItems: boolean;
  readonly #applied: readonly SchemaNode[];
  readonly #shapes: Pick<DeclaredFields, 'shapeOf'>;
  readonly #patterns: Patterns;
  readonly #named: ReadonlySet<string>;
  readonly #hasPatterns: boolean;
  readonly #fields = new Map<string, Shape | undefined>();
  readonly #items: Shape[] = [];
  /** Positions of a list that have schemas of their own; all later items share one shape. */
  readonly #listed: number;
  readonly #meter: WorkMeter;
  /** Units of a look-up without cached shapes, spent each time: a verdict must not depend on what is cached. */
  readonly #lookupWork: number;
  /** Units of making this shape, spent each time too. */
  readonly buildWork: number;
  /** The shape of a field that no schema names, where there are no patterns. */
  #others: { readonly shape: Shape | undefined } | undefined;

  constructor(
    nodes: readonly SchemaNode[],
    shapes: Pick<DeclaredFields, 'shapeOf'>,
    patterns: Patterns,
    meter: WorkMeter,
  ) {
    this.#applied = applied(nodes);
    this.#shapes = shapes;
    this.#patterns = patterns;
    this.#meter = meter;
    const parts = this.#applied.flatMap((node) => node.parts);
    this.#lookupWork = WORK_PER_LOOKUP + Math.trunc(parts.length / PARTS_PER_UNIT);
    this.buildWork = Math.trunc((this.#applied.length + parts.length) / PARTS_PER_UNIT);
    this.freeFields = !this.#applied.some((node) => node.declaresFields);
    this.freeItems = !parts.some((part) => DECLARES_ITEMS.has(part.keyword));
    this.#named = new Set(parts.filter((part) => part.keyword === 'properties').map((part) => part.key));
    this.#hasPatterns = parts.some((part) => part.keyword === 'patternProperties');
    this.#listed = Math.max(
      0,
      ...this.#applied.map((node) => node.parts.filter((part) => part.keyword === 'prefixItems').length),
    );
  }

  /** The shape of a field's value; undefined when the field is undeclared. */
  field(name: string): Shape | undefined {
    const shape = this.#fieldOf(name);
    this.#meter.spend(this.#lookupWork + (shape?.buildWork ?? 0));
    return shape;
  }

  /** Charges a field found undeclared; returns its path. */
  undeclared(path: string): string {
    this.#meter.spend(WORK_PER_UNDECLARED + (path.length >> PATH_SHIFT));
    return path;
  }

  item(index: number): Shape {
    const slot = Math.min(index, this.#listed);
    const shape = this.#items[slot] ?? this.#itemShape(slot);
    this.#items[slot] = shape;
    this.#meter.spend(this.#lookupWork + shape.buildWork);
    return shape;
  }

  #fieldOf(name: string): Shape | undefined {
    if (this.#named.has(name)) {
      const known = this.#fields.get(name);
      if (known !== undefined) return known;
      const shape = this.#fieldShape(name);
      this.#fields.set(name, shape);
      return shape;
    }
    if (this.#hasPatterns) return this.#fieldShape(name);
    this.#others ??= { shape: this.#fieldShape(name) };
    return this.#others.shape;
  }

  #itemShape(slot: number): Shape {
    return this.#shapes.shapeOf(
      orUnevaluated(this.#applied, 'unevaluatedItems', (node) => itemSchemas(node, slot)),
    );
  }

  #fieldShape(name: string): Shape | undefined {
    const schemas = orUnevaluated(this.#applied, 'unevaluatedProperties', (node) =>
      fieldSchemas(node, name, this.#patterns),
    );
    return schemas.length === 0 ? undefined : this.#shapes.shapeOf(schemas);
  }
}

const DECLARES_ITEMS = new Set(['items', 'prefixItems', 'unevaluatedItems']);

/** The schemas with all that apply in place to the same value, except under `not`. */
function applied(nodes: readonly SchemaNode[]): readonly SchemaNode[] {
  const found = new Set(nodes);
  for (const node of found) {
    for (const part of node.parts) {
      if (part.applies === 'in-place' && part.keyword !== 'not') found.add(part.node);
    }
    for (const target of node.refs) found.add(target);
  }
  return [...found];
}

function under(node: SchemaNode, keyword: string): readonly SchemaNode[] {
  return node.parts.filter((part) => part.keyword === keyword).map((part) => part.node);
}

/** The schemas of a field under one schema. `additionalProperties: false` declares no field. */
function fieldSchemas(node: SchemaNode, name: string, patterns: Patterns): readonly SchemaNode[] {
  const named = node.parts
    .filter(
      (part) =>
        (part.keyword === 'properties' && part.key === name) ||
        (part.keyword === 'patternProperties' && patterns.get(part.key)?.test(name) === true),
    )
    .map((part) => part.node);
  if (named.length > 0) return named;
  return under(node, 'additionalProperties').filter((schema) => schema.value !== false);
}

function itemSchemas(node: SchemaNode, index: number): readonly SchemaNode[] {
  const listed = under(node, 'prefixItems')[index];
  if (listed !== undefined) return [listed];
  const rest = under(node, 'items');
  return rest.length === 0 ? [] : [...rest, ...under(node, 'contains')];
}

/** The schemas of a member; where there are none, those for unevaluated members. */
function orUnevaluated(
  applied: readonly SchemaNode[],
  keyword: 'unevaluatedProperties' | 'unevaluatedItems',
  schemasOf: (node: SchemaNode) => readonly SchemaNode[],
): readonly SchemaNode[] {
  const schemas = applied.flatMap(schemasOf);
  if (schemas.length > 0) return schemas;
  return applied.flatMap((node) => under(node, keyword)).filter((schema) => schema.value !== false);
}
