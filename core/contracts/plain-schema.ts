import type { Json, JsonObject } from '../event/event.ts';
import { isList } from './json-values.ts';
import { isPlain, type PlainValue } from './plain-value.ts';
import type { SchemaNode } from './schema-node.ts';
import type { SharedParts } from './shared-parts.ts';

/**
 * A look that most events pass: `accepts` is true only for what the compiled schema finds no error in, and where
 * `declaredOnly` is asked for, only if nothing in it is undeclared. What it does not accept may be all right too.
 *
 * Compiled code is fastest once it was used a thousand times, and while it is in a cache of the processor; with as many
 * contracts in turn neither is so. This runs the same code for all of them, over tables of which they share most.
 */
export interface PlainSchema {
  accepts(value: Json, declaredOnly: boolean): boolean;
}

/** The plain schema of a schema; undefined when it has keywords that are not that simple. */
export function plainSchemaOf(node: SchemaNode, shared: SharedParts): PlainSchema | undefined {
  if (node.value === false) return NOTHING;
  const assertions = [...node.assertions].filter(([keyword]) => keyword !== 'required');
  const isSimple =
    node.refs.length === 0 &&
    assertions.every(([keyword, said]) => isPlain(keyword, said, shared)) &&
    node.parts.every(({ keyword, key }) => IN_MEMBERS.has(keyword) && key !== '__proto__');
  if (!isSimple) return undefined;
  const value = shared.plainValue(Object.fromEntries(assertions));
  if (node.parts.length === 0 && !node.assertions.has('required') && !node.declaresFields) return value;
  const members = node.parts.flatMap(({ keyword, key, node: member }): readonly Member[] => {
    const schema = plainSchemaOf(member, shared);
    return schema === undefined ? [] : [{ keyword, key, schema }];
  });
  const isWhole = members.length === node.parts.length;
  return isWhole ? new PlainMembers(value, node, members) : undefined;
}

const IN_MEMBERS = new Set(['properties', 'additionalProperties', 'items']);

const NOTHING: PlainSchema = { accepts: () => false };

interface Member {
  readonly keyword: string;
  readonly key: string;
  readonly schema: PlainSchema;
}

function requiredBy({ assertions }: SchemaNode): readonly string[] {
  return [assertions.get('required') ?? []].flat().map(String);
}

/** A value and what is in it. */
class PlainMembers implements PlainSchema {
  readonly #value: PlainValue;
  readonly #required: readonly string[];
  readonly #fields: ReadonlyMap<string, PlainSchema>;
  /** Of the fields that have no name there. */
  readonly #others: PlainSchema | undefined;
  readonly #items: PlainSchema | undefined;
  readonly #declaresFields: boolean;

  constructor(value: PlainValue, node: SchemaNode, members: readonly Member[]) {
    const under = (keyword: string) => members.filter((member) => member.keyword === keyword);
    this.#value = value;
    this.#required = requiredBy(node);
    this.#fields = new Map(under('properties').map(({ key, schema }) => [key, schema]));
    this.#others = under('additionalProperties')[0]?.schema;
    this.#items = under('items')[0]?.schema;
    this.#declaresFields = node.declaresFields;
  }

  accepts(value: Json, declaredOnly: boolean): boolean {
    if (!this.#value.accepts(value)) return false;
    if (typeof value !== 'object' || value === null) return true;
    return isList(value) ? this.#acceptsItems(value, declaredOnly) : this.#acceptsFields(value, declaredOnly);
  }

  #acceptsItems(items: readonly Json[], declaredOnly: boolean): boolean {
    const schema = this.#items;
    return schema === undefined || items.every((item) => schema.accepts(item, declaredOnly));
  }

  #acceptsFields(fields: JsonObject, declaredOnly: boolean): boolean {
    for (const name of this.#required) if (!Object.hasOwn(fields, name)) return false;
    if (!this.#declaresFields) return true;
    for (const name in fields) {
      const schema = this.#fields.get(name) ?? this.#others;
      if (schema === undefined ? declaredOnly : !schema.accepts(fields[name] ?? null, declaredOnly))
        return false;
    }
    return true;
  }
}
