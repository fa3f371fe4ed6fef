import type { CanonicalEvent } from '../event/event.ts';
import { eventName } from '../event/event.ts';
import { MAX_FUNNEL_NAME_LENGTH } from '../ports/funnel-store.ts';

/** An event as the funnel counts it: the part of a cell that is the same in all notes of the event. */
export interface CountedEvent {
  readonly messageId: string;
  readonly workspaceId: string;
  readonly environment: CanonicalEvent['environment'];
  readonly source: string;
  readonly key: string;
  readonly type: CanonicalEvent['type'];
  readonly name: string;
  /** `received_at`, epoch ms. */
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

/** A count that a stage adds to its commit. */
export type StageNote = FunnelNote | LeftOutNote;

/** `key`: the id of its write key, where it is known. */
export function countedEvent(event: CanonicalEvent, key = ''): CountedEvent {
  return {
    messageId: event.message_id,
    workspaceId: event.workspace_id,
    environment: event.environment,
    source: event.source_id ?? '',
    key,
    type: event.type,
    name: countedName(eventName(event)),
    receivedAt: Date.parse(event.received_at),
  };
}

/** The name as the funnel has it: names of producers may be as long as an event. */
export function countedName(name: string): string {
  return name.length <= MAX_FUNNEL_NAME_LENGTH ? name : `${name.slice(0, MAX_FUNNEL_NAME_LENGTH - 3)}...`;
}
