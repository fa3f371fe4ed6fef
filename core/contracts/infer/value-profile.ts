import type { Json, JsonObject } from '../../event/event.ts';
import { TextProfile } from './text-profile.ts';

/** The types of JSON Schema, a number told from an integer. */
export type JsonType = 'null' | 'boolean' | 'integer' | 'number' | 'string' | 'object' | 'array';

/** Places remembered of all events together. */
export const MAX_PLACES = 1_000;
/** Fields of one object: one with more is taken for a map, whose names are data. */
export const MAX_FIELDS = 100;
/** How deep is looked. */
export const MAX_DEPTH = 20;

/** How many places there may still be. */
export interface Room {
  left: number;
}

/** What was seen of the values that stood at one place of events. What it takes is bounded, whatever it is shown. */
export class ValueProfile {
  readonly types = new Map<JsonType, number>();
  readonly texts = new TextProfile();
  /** Of numbers. */
  minimum = Number.POSITIVE_INFINITY;
  maximum = Number.NEGATIVE_INFINITY;
  /** What stood inside was too much to remember: anything may. */
  isOpen = false;
  readonly fields = new Map<string, ValueProfile>();
  items: ValueProfile | undefined;
  readonly #depth: number;
  readonly #room: Room;

  constructor(depth: number, room: Room) {
    this.#depth = depth;
    this.#room = room;
  }

  /** How many values it was shown. */
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

  /** Forgets what stands inside. The places are not given back: which ones there are must not depend on luck. */
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

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}
