import type { Json, JsonObject } from '../event/event.ts';
import type { Place } from './keywords.ts';

/** One schema of the document. */
export interface SchemaNode {
  readonly id: number;
  /** Where it stands in the definition. */
  readonly pointer: string;
  readonly value: JsonObject | boolean;
  /** Its keywords that judge and hold no schema, with their values. */
  readonly assertions: ReadonlyMap<string, Json>;
  /** The schemas under its keywords, by their names in draft 2020-12; not those that stand `aside`. */
  readonly parts: readonly SchemaPart[];
  /** Has a keyword that says which fields an object may have, an empty `properties` included. */
  readonly declaresFields: boolean;
  /** What its `$ref` and `$dynamicRef` stand for. */
  readonly refs: readonly SchemaNode[];
}

export interface SchemaPart {
  readonly keyword: string;
  /** The property name or pattern; the index in a list; '' for a single schema. */
  readonly key: string;
  readonly place: Exclude<Place, 'aside'>;
  readonly tentative: boolean;
  readonly node: SchemaNode;
}
