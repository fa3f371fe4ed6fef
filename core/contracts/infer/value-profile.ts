import type { Json, JsonObject } from '../../event/event.ts';
import { hasFormat } from '../definition/formats.ts';
import { isList } from '../json-values.ts';

/** The types of JSON Schema. `number` stands for the numbers that are no integers. */
export type JsonType = 'null' | 'boolean' | 'integer' | 'number' | 'string' | 'object' | 'array';

/** Paths remembered of all events together. A path leads to a field or the items of a list, at any depth. */
export const MAX_PATHS = 1_000;
/** Fields of one object; an object with more is taken for a map, whose names are data. */
export const MAX_FIELDS = 100;
/** Values nested deeper are not looked at. */
export const MAX_DEPTH = 20;

/** How many more paths may be remembered. */
export interface Room {
  left: number;
}

/** Statistics of the values at one path of events, of bounded size whatever the values are. */
export class ValueProfile {
  readonly types = new Map<JsonType, number>();
  readonly texts = new TextProfile();
  /** The smallest and the largest number. */
  minimum = Number.POSITIVE_INFINITY;
  maximum = Number.NEGATIVE_INFINITY;
  /** Members are not remembered any more, as they are too many or nested too deep. */
  isOpen = false;
  readonly fields = new Map<string, ValueProfile>();
  items: ValueProfile | undefined;
  readonly #depth: number;
  readonly #room: Room;

  constructor(depth: number, room: Room) {
    this.#depth = depth;
    this.#room = room;
  }

  /** How many values were added. */
  get seen(): number {
    let seen = 0;
    for (const count of this.types.values()) seen += count;
    return seen;
  }

  add(value: Json): void {
    const type = typeOf(value);
    this.types.set(type, (this.types.get(type) ?? 0) + 1);
    if (typeof value === 'string') this.texts.add(value);
    else if (typeof value === 'number') {
      this.minimum = Math.min(this.minimum, value);
      this.maximum = Math.max(this.maximum, value);
    } else if (isList(value)) this.#addItems(value);
    else if (typeof value === 'object' && value !== null) this.#addFields(value);
  }

  #addItems(items: readonly Json[]): void {
    if (items.length > 0) this.items ??= this.#inner();
    for (const item of items) {
      if (this.isOpen) return;
      this.items?.add(item);
    }
  }

  #addFields(object: JsonObject): void {
    for (const [name, value] of Object.entries(object)) {
      if (this.isOpen) return;
      const field = this.fields.get(name) ?? (this.fields.size < MAX_FIELDS ? this.#inner() : this.#open());
      if (field === undefined) return;
      this.fields.set(name, field);
      field.add(value);
    }
  }

  #inner(): ValueProfile | undefined {
    if (this.#depth >= MAX_DEPTH || this.#room.left <= 0) return this.#open();
    this.#room.left--;
    return new ValueProfile(this.#depth + 1, this.#room);
  }

  /** Forgets the members. Their paths stay counted: which others are remembered must not depend on the order of events. */
  #open(): undefined {
    this.isOpen = true;
    this.fields.clear();
    this.items = undefined;
  }
}

function typeOf(value: Json): JsonType {
  if (value === null) return 'null';
  if (isList(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  if (typeof value === 'object') return 'object';
  return typeof value === 'string' ? 'string' : 'boolean';
}

/** Formats that are inferred, the most specific first. */
const INFERRED_FORMATS = ['uuid', 'date-time', 'date', 'email', 'ipv4', 'ipv6', 'url'] as const;

/** Distinct texts remembered, and characters of each: texts beyond that are no small closed set. */
export const MAX_DISTINCT = 50;
const MAX_REMEMBERED_LENGTH = 100;

/** Statistics of the texts at one path of events. */
class TextProfile {
  seen = 0;
  #formats: readonly string[] = INFERRED_FORMATS;
  /** Undefined once they were too many, or one was too long. */
  #distinct: Set<string> | undefined = new Set();

  add(text: string): void {
    this.seen++;
    if (this.#formats.length > 0) this.#formats = this.#formats.filter((name) => hasFormat(name, text));
    this.#distinct?.add(text.length > MAX_REMEMBERED_LENGTH ? '' : text);
    if (text.length > MAX_REMEMBERED_LENGTH || (this.#distinct?.size ?? 0) > MAX_DISTINCT)
      this.#distinct = undefined;
  }

  /** The format of every text. */
  get format(): string | undefined {
    return this.#formats[0];
  }

  /** The distinct texts, sorted; undefined where they are too many or too long to be a closed set. */
  get distinct(): readonly string[] | undefined {
    return this.#distinct && [...this.#distinct].sort();
  }
}
