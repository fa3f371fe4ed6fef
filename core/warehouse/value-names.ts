import { isObject, type Json, type JsonObject } from '../event/event.ts';

/** Levels of objects whose members are columns; an object that is deeper is JSON. */
export const MAX_DEPTH = 3;
/** Names that are kept: producers may send new ones with each event. */
const MAX_NAMES = 20_000;

/** A path in an event or profile, and the column of its values. */
export interface ValueName {
  readonly path: readonly string[];
  readonly column: string;
  /** The path as a producer writes it: of several paths with one column the one that equals its name comes first. */
  readonly spelling: string;
}

/** Values with their names, in the order of the event. */
export interface NamedValues {
  readonly names: readonly ValueName[];
  readonly values: readonly Json[];
}

interface Node extends ValueName {
  readonly inColumn: readonly string[];
  below: Map<string, Node> | undefined;
}

/**
 * The names of the values below one place of events or profiles, such as their `properties`. They are kept for the next event,
 * because most have the same.
 */
export class ValueNames {
  readonly #path: readonly string[];
  readonly #prefix: readonly string[];
  readonly #column: (path: readonly string[]) => string;
  #root: Node;
  #kept = 0;

  /** `path`: of the place. `prefix`: what comes before the path below it in `column`, which names a path. */
  constructor(
    path: readonly string[],
    prefix: readonly string[],
    column: (path: readonly string[]) => string,
  ) {
    this.#path = path;
    this.#prefix = prefix;
    this.#column = column;
    this.#root = this.#newRoot();
  }

  /** Flattens objects; `null` and empty objects are left out. */
  flatten(object: JsonObject | undefined): NamedValues {
    const names: ValueName[] = [];
    const values: Json[] = [];
    if (this.#kept > MAX_NAMES) {
      this.#root = this.#newRoot();
      this.#kept = 0;
    }
    if (object !== undefined) this.#flatten(object, this.#root, 1, names, values);
    return { names, values };
  }

  #flatten(object: JsonObject, node: Node, depth: number, names: ValueName[], values: Json[]): void {
    for (const key of Object.keys(object)) {
      const value = object[key];
      if (value === null || value === undefined) continue;
      const name = this.#below(node, key);
      if (depth < MAX_DEPTH && isObject(value)) {
        this.#flatten(value, name, depth + 1, names, values);
        continue;
      }
      names.push(name);
      values.push(value);
    }
  }

  #below(node: Node, key: string): Node {
    node.below ??= new Map();
    const known = node.below.get(key);
    if (known !== undefined) return known;
    const inColumn = [...node.inColumn, key];
    const made = {
      path: [...node.path, key],
      inColumn,
      column: this.#column(inColumn),
      spelling: inColumn.join('.'),
      below: undefined,
    };
    node.below.set(key, made);
    this.#kept += 1;
    return made;
  }

  #newRoot(): Node {
    return { path: this.#path, inColumn: this.#prefix, column: '', spelling: '', below: undefined };
  }
}
