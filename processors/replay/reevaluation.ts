import {
  type CanonicalEvent,
  type DedupeClaim,
  type Deduplicator,
  eventKey,
  HEADER,
  InvalidInput,
  type LogEntry,
  type OutputRecord,
  parseExact,
  parseObject,
  type RejectedEvent,
  type Replay,
  type ReplayStep,
  TOPIC,
} from '@tributary/core';
import { eventHeaders } from '../entry.ts';
import { type Contracts, evaluated } from '../validate/judgement.ts';
import { takesEvent, takesHeaders } from './narrowed.ts';

/** What a replay makes of an entry that it looks at. */
export type Looked = OutputRecord | 'still rejected' | undefined;

export interface ReevaluationDependencies extends Contracts {
  readonly reevaluations: Pick<Deduplicator, 'claim'>;
  readonly dedupeWindowMs: number;
}

/** Clocks of the log's machines may differ by this much, ms. */
const CLOCKS_APART_MS = 60_000;

/** From when on accepted events may have the ids of the rejected ones that a replay reads, epoch ms. */
export function comparedSince({ since }: Replay): number {
  return Date.parse(since) - CLOCKS_APART_MS;
}

/**
 * Whether the deduplicator may have forgotten the ids of some events that were accepted since they were rejected. Half of
 * its window is left for the run itself.
 */
export function mayBeForgotten(replay: Replay, now: number, dedupeWindowMs: number): boolean {
  return comparedSince(replay) < now - dedupeWindowMs / 2;
}

/** Looks at rejected events: those that their contract lets pass by now go to the slow queue of validate. */
export function reevaluate(
  contracts: Contracts,
  replay: Replay,
  { catalog_position }: Pick<ReplayStep, 'catalog_position'>,
): (entry: LogEntry) => Looked {
  if (catalog_position === undefined) throw new InvalidInput('no catalog position to evaluate by');
  return (entry) => {
    const found = takenOf(replay, entry);
    if (found === undefined) return undefined;
    const by = evaluated(contracts, found.event, catalog_position);
    if (by?.verdict.outcome === 'rejected') return 'still rejected';
    return toValidate(replay, entry, found, catalog_position);
  };
}

/** The received event in a rejected one, with its text as it was received. */
interface Received {
  readonly event: CanonicalEvent;
  readonly text: string;
}

/** Undefined for an event of another workspace, or one that the filters of the replay leave out. */
function takenOf(replay: Replay, entry: LogEntry): Received | undefined {
  if (!takesHeaders(replay, entry)) return undefined;
  const rejected = parseObject(entry.value) as unknown as RejectedEvent;
  if (!takesEvent(replay, rejected.event)) return undefined;
  return { event: rejected.event, text: receivedText(entry.value, rejected) };
}

/** As validate put it into the rejected event; what another release wrote otherwise is written anew, with its digits. */
function receivedText(value: string, { reason, violations }: RejectedEvent): string {
  const before = '{"event":';
  const after = `,"reason":${JSON.stringify(reason)},"violations":${JSON.stringify(violations)}}`;
  if (value.startsWith(before) && value.endsWith(after)) return value.slice(before.length, -after.length);
  return JSON.stringify(parseExact<RejectedEvent>(value).event);
}

function toValidate(
  replay: Replay,
  { headers }: LogEntry,
  { event, text }: Received,
  catalogPosition: number,
): OutputRecord {
  const kept = [HEADER.keyId, HEADER.receivedPosition].flatMap((name) => {
    const value = headers[name];
    return value === undefined ? [] : [[name, value]];
  });
  return {
    topic: TOPIC.receivedSlow,
    key: eventKey(event),
    value: text,
    headers: {
      ...eventHeaders(event, headers, catalogPosition),
      ...Object.fromEntries(kept),
      [HEADER.reevaluatedBy]: replay.id,
    },
  };
}

/** Remembers the ids of the rejected events that the replay takes. */
export function mark(replay: Replay, claimants: DedupeClaim[]): (entry: LogEntry) => Looked {
  return (entry) => {
    const found = takenOf(replay, entry);
    if (found !== undefined) claimants.push({ ...claimantOf(found.event, entry), rejected: true });
    return undefined;
  };
}

/** Takes the ids of accepted events, where a rejected one has the same: it is not to be accepted a second time. */
export function compare({ workspace_id }: Replay, claimants: DedupeClaim[]): (entry: LogEntry) => Looked {
  return (entry) => {
    const { [HEADER.messageId]: messageId, [HEADER.environment]: environment } = entry.headers;
    if (entry.headers[HEADER.workspaceId] !== workspace_id || messageId === undefined) return undefined;
    if (environment !== 'production' && environment !== 'development') return undefined;
    const { position } = entry;
    claimants.push({ workspaceId: workspace_id, environment, messageId, position, afterRejected: true });
    return undefined;
  };
}

function claimantOf(
  { workspace_id, environment, message_id }: CanonicalEvent,
  { position }: LogEntry,
): DedupeClaim {
  return { workspaceId: workspace_id, environment, messageId: message_id, position };
}
