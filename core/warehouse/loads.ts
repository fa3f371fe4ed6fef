import { hash } from 'node:crypto';
import type { Destination } from '../catalog/entities.ts';
import { type DestinationHealth, type HealthBoard, mergeHealth } from '../delivery/destination-health.ts';
import type { JsonObject } from '../event/event.ts';
import { type EventLog, type Position, parsePosition } from '../log/event-log.ts';
import { TOPIC } from '../log/topics.ts';
import { type Counters, measured } from '../ports/counters.ts';
import type { History, HistoryEntry } from '../ports/history.ts';
import type { LogRange } from '../ports/warehouse.ts';

/** A request on the topic `loads`: load at once. */
export interface LoadRequest {
  readonly kind: 'requested';
  readonly destination_id: string;
  readonly workspace_id: string;
  /** ISO 8601. */
  readonly at: string;
}

/** A value or an event that is not in its table, as a record of a load shows it. */
export interface DiscardSample {
  readonly table: string;
  readonly column: string;
  readonly message_id: string;
  readonly position: string;
  readonly reason: string;
}

/** A change of a table, as a record of a load shows it. */
export interface ShownChange {
  readonly table: string;
  readonly column: string;
  /** Null: the column was added. */
  readonly from: string | null;
  readonly to: string;
}

/** The end of a load, or the fact that loading fails, on the topic `loads` and in history. */
export interface LoadRecord {
  readonly kind: 'loaded' | 'failed';
  /** Of a load its batch; the same batch has one entry in history, however often it is recorded. */
  readonly id: string;
  readonly destination_id: string;
  readonly workspace_id: string;
  /** `live`, or the id of a replay. */
  readonly lane: string;
  /** Of a failure: that of the load that failed. */
  readonly seq: number;
  readonly ranges: readonly LogRange[];
  /** ISO 8601; null where the record was made again from the ledger. */
  readonly began: string | null;
  /** As the ledger has it. */
  readonly ended: string;
  /** Of the live lane, ISO 8601: what was accepted before is loaded. */
  readonly until?: string;
  /** Rows and discards by table, without those that were there before. */
  readonly rows: Readonly<Record<string, number>>;
  readonly discards: Readonly<Record<string, number>>;
  /** Rows by table of all loads so far; without those that were removed since. */
  readonly totals: Readonly<Record<string, number>>;
  readonly samples: readonly DiscardSample[];
  /** For the traces of events; absent where the record was made again from the ledger. */
  readonly discarded?: DiscardedEvents;
  readonly changes: readonly ShownChange[];
  /** Of a failure: `unavailable`, `refused`, `missed` (events were no longer kept) or `fault`. */
  readonly code?: string;
  /** Why it failed, or what else is worth knowing of a load. */
  readonly note?: string;
}

export type LoadsValue = LoadRequest | LoadRecord;

/** The lane of the events as they arrive. */
export const LIVE_LANE = 'live';

/** The history entry of a record of `loads`; undefined for a request. */
export function historyEntryOfLoad(value: LoadsValue): HistoryEntry | undefined {
  if (value.kind === 'requested') return undefined;
  const { discarded, ...body } = value;
  const { id, workspace_id, destination_id, lane, kind, ended, discards } = value;
  const hasDiscards = Object.keys(discards).length > 0;
  return {
    kind: 'load',
    id,
    workspaceId: workspace_id,
    at: Date.parse(ended),
    // What was made again from the ledger replaces nothing.
    version: value.began === null ? 1 : 2,
    facets: { destination_id, lane, status: kind, ...(hasDiscards && { discards: 'true' }) },
    body: body as unknown as JsonObject,
    ...(discarded && { detail: { discarded } as unknown as JsonObject }),
  };
}

/** The newest load of a warehouse, or of one of its lanes, in history. */
export async function newestLoad(
  history: Pick<History, 'list'>,
  { id: destination_id, workspace_id: workspaceId }: { readonly id: string; readonly workspace_id: string },
  lane?: string,
): Promise<LoadRecord | undefined> {
  const facets = { destination_id, status: 'loaded', ...(lane !== undefined && { lane }) };
  let cursor: string | undefined;
  do {
    const query = { kind: 'load', workspaceId, facets, limit: 1 } as const;
    const { entries, next } = await history.list({ ...query, ...(cursor !== undefined && { cursor }) });
    const [newest] = entries;
    if (newest !== undefined) return newest.body as unknown as LoadRecord;
    // A page may be empty before the last one.
    cursor = next;
  } while (cursor !== undefined);
  return undefined;
}

const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000 };
const DEFAULT_LOAD_EVERY = '5m';
const LOAD_EVERY_MS = { min: 10_000, max: 24 * 3_600_000 } as const;

/** The setting `load_every` of a warehouse as ms, within its bounds. */
export function loadEveryMs({ load_every = DEFAULT_LOAD_EVERY }: JsonObject): number {
  const [, number, unit = ''] = /^([1-9]\d{0,5})([smh])$/.exec(String(load_every)) ?? [];
  const ms = Number(number) * (UNIT_MS[unit] ?? Number.NaN);
  return Number.isNaN(ms) ? LOAD_EVERY_MS.max : Math.min(LOAD_EVERY_MS.max, Math.max(LOAD_EVERY_MS.min, ms));
}

/** The id of a batch: the same for the same ranges, whichever process cuts them, so that attempts at one batch are known as such. */
export function batchId(
  destinationId: string,
  lane: string,
  seq: number,
  ranges: readonly LogRange[],
): string {
  const of = ranges.map(({ topic, partition, from, to }) => `${topic}/${partition}/${from}-${to}`).sort();
  return hash('sha256', [destinationId, lane, seq, ...of].join('\n')).slice(0, 16);
}

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

interface StandingSources {
  readonly healthBoard: Pick<HealthBoard, 'read'>;
  readonly history: Pick<History, 'list'>;
  readonly counters: Pick<Counters, 'funnel'>;
  readonly log: Pick<EventLog, 'end'>;
}

/** How far a warehouse is loaded. */
export interface WarehouseStanding {
  /** Epoch ms: what was accepted before is loaded. Undefined while nothing is. */
  readonly loadedUntil: number | undefined;
  /** Events that were accepted since, about. */
  readonly waiting: number;
  /** Undefined while no process reports it. */
  readonly health: DestinationHealth | undefined;
  /** Of the live lane. */
  readonly newest: LoadRecord | undefined;
}

/** The loader knows best; while none reports, the newest load in history tells. */
export async function readStanding(
  { healthBoard, history, counters, log }: StandingSources,
  warehouse: Destination,
  now: number,
): Promise<WarehouseStanding> {
  const { id, workspace_id: workspaceId, created_at } = warehouse;
  const [reports, newest] = await Promise.all([
    healthBoard.read(workspaceId, [id]),
    newestLoad(history, warehouse, LIVE_LANE),
  ]);
  const health = mergeHealth(reports);
  const recorded = newest?.until === undefined ? 0 : Date.parse(newest.until);
  const loadedUntil = Math.max(recorded, health?.loaded_until ?? 0) || undefined;
  const since = loadedUntil ?? Date.parse(created_at);
  const isBehind = newest === undefined || (await hasRecordsBehind(log, newest));
  const waiting = isBehind ? await acceptedSince(counters, warehouse, since, now) : 0;
  return { loadedUntil, waiting, health, newest };
}

async function hasRecordsBehind(log: Pick<EventLog, 'end'>, { ranges }: LoadRecord): Promise<boolean> {
  const behind = ranges
    .filter(({ topic }) => topic === TOPIC.accepted)
    .map(async ({ topic, partition, to }) => (await log.end(topic, partition)) > to);
  return (await Promise.all(behind)).includes(true);
}

/**
 * About how many events a workspace accepted for the environments of a warehouse since a time, whatever its rules choose: by the
 * minute within the last hour, else by the hour. Of the interval that the time is in a share counts.
 */
export async function acceptedSince(
  counters: Pick<Counters, 'funnel'>,
  { workspace_id: workspaceId, environments }: Pick<Destination, 'workspace_id' | 'environments'>,
  since: number,
  now: number,
): Promise<number> {
  if (since >= now) return 0;
  const [interval, step] =
    now - since < HOUR_MS ? (['minute', MINUTE_MS] as const) : (['hour', HOUR_MS] as const);
  const from = Math.floor(since / step) * step;
  const to = (Math.floor(now / step) + 1) * step;
  const [environment] = environments?.length === 1 ? environments : [];
  const filter = environment === undefined ? {} : { environment };
  const rows = await counters.funnel({ workspaceId, interval, from, to, filter, groupBy: [] });
  const counted = rows.map(({ start, counts }) => {
    // The current interval has its counts from its first moment until now.
    const end = Math.min(start + step, now);
    const share = end <= start ? 1 : (end - Math.max(start, since)) / (end - start);
    return measured(counts, 'accepted') * Math.min(1, Math.max(0, share));
  });
  return Math.ceil(counted.reduce((sum, count) => sum + count, 0));
}

/** The place of discards and their reason. `column` is empty for a whole row, `table` too for a whole event. */
export interface DiscardPlace {
  readonly table: string;
  readonly column: string;
  readonly reason: string;
}

interface DiscardGroup extends DiscardPlace {
  /** Offset and index on `events.accepted`, by partition: `1204/0 1207/0`. */
  readonly events: Readonly<Record<string, string>>;
}

/** Which events of a load have discards, and why: by their positions, as a load may have thousands of them. */
export interface DiscardedEvents {
  readonly groups: readonly DiscardGroup[];
  /** False: there are more of them, in the table `discards` alone. */
  readonly isComplete: boolean;
}

/** Bounds on one record: about 300 KB. */
const MAX_EVENTS = 20_000;
const MAX_GROUPS = 100;
const MAX_REASON = 300;

/** Groups discards until a bound is reached. Those of profiles are left out. */
export function discardedEvents(
  discards: Iterable<DiscardPlace & { readonly position: string }>,
): DiscardedEvents {
  const groups = new Map<string, { place: DiscardPlace; events: Map<string, string[]> }>();
  let count = 0;
  for (const { table, column, reason: whole, position: text } of discards) {
    const position = parsePosition(text);
    if (position?.topic === TOPIC.profileChanges) continue;
    // The cut may halve a character, which not every store takes.
    const reason = whole.slice(0, MAX_REASON).toWellFormed();
    const key = JSON.stringify([table, column, reason]);
    const isNew = !groups.has(key);
    if (position === undefined || count === MAX_EVENTS || (isNew && groups.size === MAX_GROUPS))
      return { groups: shown(groups.values()), isComplete: false };
    const group = groups.get(key) ?? { place: { table, column, reason }, events: new Map() };
    groups.set(key, group);
    const partition = String(position.partition);
    const offsets = group.events.get(partition) ?? [];
    group.events.set(partition, offsets);
    offsets.push(offsetText(position));
    count += 1;
  }
  return { groups: shown(groups.values()), isComplete: true };
}

function shown(
  groups: Iterable<{ place: DiscardPlace; events: Map<string, string[]> }>,
): readonly DiscardGroup[] {
  return Array.from(groups, ({ place, events }) => ({
    ...place,
    events: Object.fromEntries(Array.from(events, ([partition, offsets]) => [partition, offsets.join(' ')])),
  }));
}

/** The discards of an event; undefined where that is not known. */
export function discardsOfEvent(
  discarded: DiscardedEvents | undefined,
  position: Position,
): readonly DiscardPlace[] | undefined {
  if (discarded === undefined) return undefined;
  const wanted = ` ${offsetText(position)} `;
  const found = discarded.groups.filter(({ events }) =>
    ` ${events[String(position.partition)] ?? ''} `.includes(wanted),
  );
  if (found.length === 0 && !discarded.isComplete) return undefined;
  return found.map(({ table, column, reason }) => ({ table, column, reason }));
}

function offsetText({ offset, index }: Position): string {
  return `${offset}/${index}`;
}
