import {
  type CanonicalEvent,
  type CatalogView,
  closedTo,
  type Destination,
  type DiscardedEvents,
  discardsOfEvent,
  type History,
  LIVE_LANE,
  type LoadRecord,
  type LoadTrace,
  type LogEntry,
  type LogRange,
  loadEveryMs,
  newestLoad,
  type Position,
  type RuleTrace,
} from '@tributary/core';
import { CLOCK_SKEW_MS, type LogScan } from './log-scan.ts';

interface LoadSources {
  readonly history: Pick<History, 'get' | 'list'>;
  readonly state: CatalogView;
}

/** Warehouses of a workspace that a trace looks at. */
const MAX_WAREHOUSES = 20;
/** Loads that one look reads: those of the first intervals after the event. */
const MAX_LOADS = 50;
const MINUTE_MS = 60_000;

/**
 * Traces an accepted event at each warehouse that takes it, by the records of loads in history alone: the ranges of the log that
 * were loaded, and the positions of events with discards. Nothing is asked of a warehouse.
 */
export async function traceLoads(
  scan: LogScan,
  { history, state }: LoadSources,
  { entry, event }: { readonly entry: LogEntry; readonly event: CanonicalEvent },
  rules: readonly RuleTrace[],
): Promise<readonly LoadTrace[]> {
  const warehouses = state
    .entities('destination', event.workspace_id)
    .filter((destination) => destination.warehouse === true && takes(destination, event, rules))
    .slice(0, MAX_WAREHOUSES);
  return Promise.all(
    warehouses.map(async (warehouse): Promise<LoadTrace> => {
      if (Date.parse(warehouse.created_at) > entry.timestamp)
        return { destination_id: warehouse.id, status: 'before' };
      return { destination_id: warehouse.id, ...(await loadOf(scan, history, warehouse, entry)) };
    }),
  );
}

/** Why a rule with a warehouse makes no delivery of an event although the event is loaded, or becomes a discard. */
const LOADED: ReadonlySet<string> = new Set([
  'warehouse',
  'destination_disabled',
  'filter_failed',
  'filter_not_evaluated',
]);

/** Without rules a warehouse takes all events of its environments. What is disabled is loaded once it is enabled. */
function takes(warehouse: Destination, event: CanonicalEvent, rules: readonly RuleTrace[]): boolean {
  const own = rules.filter(({ destination_id }) => destination_id === warehouse.id);
  if (own.length === 0) return closedTo({ ...warehouse, enabled: true }, event) === undefined;
  return own.some(({ mismatch }) => mismatch !== undefined && LOADED.has(mismatch.because));
}

async function loadOf(
  scan: LogScan,
  history: LoadSources['history'],
  warehouse: Destination,
  { position, timestamp }: LogEntry,
): Promise<Omit<LoadTrace, 'destination_id'>> {
  const { id: destination_id, workspace_id: workspaceId } = warehouse;
  const query = {
    kind: 'load',
    workspaceId,
    facets: { destination_id, lane: LIVE_LANE },
    since: timestamp - CLOCK_SKEW_MS,
    until: timestamp + 2 * loadEveryMs(warehouse.settings) + MINUTE_MS,
    limit: MAX_LOADS,
  } as const;
  const page = await scan.ask('history', () => history.list(query));
  if (page === 'unanswered') return { status: 'unknown' };
  const load = page.entries
    .map(({ body }) => body as unknown as LoadRecord)
    .find(({ kind, ranges }) => kind === 'loaded' && ranges.some((range) => holds(range, position)));
  if (load !== undefined) {
    const { id, ended: at } = load;
    const whole = await scan.ask('history', () => history.get('load', workspaceId, id));
    const detail = whole === 'unanswered' ? undefined : whole?.detail;
    const discards = discardsOfEvent(detail?.discarded as unknown as DiscardedEvents | undefined, position);
    return { status: 'loaded', load: { id, at }, ...(discards && { discards }) };
  }
  // It was loaded later than usual, or not yet.
  const newest = await scan.ask('history', () => newestLoad(history, warehouse, LIVE_LANE));
  if (newest === 'unanswered') return { status: 'unknown' };
  const isLoaded =
    newest?.ranges.some((range) => isOf(range, position) && range.to > position.offset) === true;
  return { status: isLoaded ? 'loaded' : 'waiting' };
}

function isOf({ topic, partition }: LogRange, position: Position): boolean {
  return topic === position.topic && partition === position.partition;
}

function holds(range: LogRange, position: Position): boolean {
  return isOf(range, position) && range.from <= position.offset && position.offset < range.to;
}
