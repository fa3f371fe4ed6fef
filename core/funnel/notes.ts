import { type CanonicalEvent, eventName } from '../event/event.ts';
import { MAX_FUNNEL_NAME_LENGTH, type ScopeBytes } from '../ports/counters.ts';

/** The part of a cell that is the same in all notes of an event. Events that are alike share the object: see `eventKind`. */
export interface EventKind {
  readonly workspaceId: string;
  readonly environment: CanonicalEvent['environment'];
  readonly source: string;
  readonly key: string;
  readonly type: CanonicalEvent['type'];
  readonly name: string;
}

/** An event as the funnel counts it. */
export interface CountedEvent {
  readonly messageId: string;
  readonly kind: EventKind;
  /** `received_at` by `receptionTime`, epoch ms. */
  readonly receivedAt: number;
}

/** A stage's result for one event. It is counted in the commit of the entry. */
export interface FunnelNote {
  readonly event: CountedEvent;
  /** Ids of the rule and its destination; empty for results before the rules. */
  readonly rule: string;
  readonly destination: string;
  /** As `FunnelIncrement.measures`. */
  readonly measures: string;
  /** How many are counted. Default 1. */
  readonly count?: number;
  /** From received to delivered. */
  readonly latencyMs?: number;
}

/** A rule whose lists of environments, types and names leave an event out, and why. */
export interface LeftOutRule {
  readonly rule: string;
  readonly destination: string;
  readonly because: string;
}

/**
 * The rules that do not speak of an event. Counted over all names, sources and keys together: a workspace may have
 * hundreds of rules, most of which leave out most events. The list is the same object for events that are alike.
 */
export interface LeftOutNote {
  readonly event: CountedEvent;
  readonly leftOut: readonly LeftOutRule[];
}

/** A count that a stage adds to its commit, or bytes that no stage wrote. */
export type StageNote = FunnelNote | LeftOutNote | ScopeBytes;

/** `key`: the id of its write key, where it is known. `receivedAt`: where it is not `received_at`. */
export function countedEvent(
  event: CanonicalEvent,
  key = '',
  receivedAt = Date.parse(event.received_at),
): CountedEvent {
  const kind = eventKind({
    workspaceId: event.workspace_id,
    environment: event.environment,
    source: event.source_id ?? '',
    key,
    type: event.type,
    name: countedName(eventName(event)),
  });
  return { messageId: event.message_id, kind, receivedAt };
}

/** Values by paths of keys: a look-up makes no text of them. */
export class PathMap<Key, Value> {
  value: Value | undefined;
  #next: Map<Key, PathMap<Key, Value>> | undefined;

  /** The part of the map behind a key, made where it is missing. */
  at(key: Key): PathMap<Key, Value> {
    this.#next ??= new Map();
    let next = this.#next.get(key);
    if (next === undefined) {
      next = new PathMap();
      this.#next.set(key, next);
    }
    return next;
  }
}

/** Kinds of events that are shared; one more begins anew, and events before and after have different objects. */
const MAX_KINDS = 10_000;

let kinds = new PathMap<string, EventKind>();
let sharedKinds = 0;

/** The object that all events of this kind share, so that it is compared and looked up by identity. */
export function eventKind(kind: EventKind): EventKind {
  const { workspaceId, environment, source, key, type, name } = kind;
  const place = kinds.at(workspaceId).at(environment).at(source).at(key).at(type).at(name);
  if (place.value !== undefined) return place.value;
  if (++sharedKinds > MAX_KINDS) {
    kinds = new PathMap();
    sharedKinds = 0;
  }
  place.value = kind;
  return kind;
}

/** The name as the funnel has it: names of producers may be as long as an event. */
export function countedName(name: string): string {
  return name.length <= MAX_FUNNEL_NAME_LENGTH ? name : `${name.slice(0, MAX_FUNNEL_NAME_LENGTH - 3)}...`;
}
