import type { JsonObject } from '../event/event.ts';
import type { History, HistoryEntry } from '../ports/history.ts';
import type { LogRange } from '../ports/warehouse.ts';
import type { DiscardedEvents } from './discarded-events.ts';

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
