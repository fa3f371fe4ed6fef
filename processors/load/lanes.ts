import {
  type CatalogView,
  type Destination,
  type EventLog,
  type LedgerRow,
  LIVE_LANE,
  type LogRange,
  type Replay,
  type Rule,
  TOPIC,
} from '@tributary/core';

/** What one ledger of a warehouse follows: the events as they arrive with the changes of profiles, or a backfill. */
export interface Lane {
  /** `LIVE_LANE`, or the id of the replay. */
  readonly id: string;
  /** Undefined: live. */
  readonly replay: Replay | undefined;
}

const LIVE: Lane = { id: LIVE_LANE, replay: undefined };

/**
 * The lanes of a warehouse, live first: replays of accepted events for one of its rules or for every rule, as long as the log
 * may have their events. `finished`: ids of replays that are done.
 */
export function lanesOf(
  state: Pick<CatalogView, 'entities' | 'entity'>,
  destination: Destination,
  finished: ReadonlySet<string>,
  createdAfter: number,
): readonly Lane[] {
  const rules = rulesOf(state, destination);
  const isInto = ({ rule_id }: Replay) =>
    rule_id === null
      ? rules.length === 0 || rules.some(({ enabled }) => enabled)
      : rules.some(({ id }) => id === rule_id);
  const replays = state
    .entities('replay', destination.workspace_id)
    .filter(
      (replay) =>
        replay.status === 'active' &&
        (replay.outcome ?? 'accepted') === 'accepted' &&
        !finished.has(replay.id) &&
        Date.parse(replay.created_at) > createdAfter &&
        replay.created_at > destination.created_at &&
        isInto(replay),
    );
  return [LIVE, ...replays.reverse().map((replay) => ({ id: replay.id, replay }))];
}

/** Replays whose rule was deleted: those of warehouses end with their loaders. */
export function abandonedReplays(
  state: Pick<CatalogView, 'entities' | 'entity'>,
  { workspace_id }: Destination,
  finished: ReadonlySet<string>,
  createdAfter: number,
): readonly Replay[] {
  return state
    .entities('replay', workspace_id)
    .filter(
      ({ id, rule_id, status, created_at }) =>
        status === 'active' &&
        rule_id !== null &&
        !finished.has(id) &&
        Date.parse(created_at) > createdAfter &&
        state.entity('rule', workspace_id, rule_id) === undefined,
    );
}

/** The rules that decide which events a warehouse gets, oldest first; without any it gets all. */
export function rulesOf(
  state: Pick<CatalogView, 'entities'>,
  { id, workspace_id }: Destination,
): readonly Rule[] {
  return state
    .entities('rule', workspace_id)
    .filter(({ destination_id }) => destination_id === id)
    .reverse();
}

/** Whether a replay goes into a warehouse alone, so that its loader reports the progress. */
export function isOfWarehouse(
  state: Pick<CatalogView, 'entity'>,
  { rule_id, workspace_id }: Replay,
): boolean {
  const rule = rule_id === null ? undefined : state.entity('rule', workspace_id, rule_id);
  if (rule === undefined) return false;
  return state.entity('destination', workspace_id, rule.destination_id)?.warehouse === true;
}

/** Where the log is in one partition of a lane. */
export interface PartitionBounds {
  readonly topic: string;
  readonly partition: number;
  /** The first kept record. */
  readonly first: number;
  /** Where the lane begins. */
  readonly start: number;
  /** Where it ends: of a backfill for good, else as far as the log goes now. */
  readonly end: number;
}

type Log = Pick<EventLog, 'topics' | 'first' | 'end' | 'offsetAt'>;

/** Looks up the bounds of a lane. A few requests for each partition. */
export async function boundsOf(
  log: Log,
  { replay }: Lane,
  { created_at }: Pick<Destination, 'created_at'>,
): Promise<readonly PartitionBounds[]> {
  const topics = replay === undefined ? [TOPIC.accepted, TOPIC.profileChanges] : [TOPIC.accepted];
  const since = Date.parse(replay?.since ?? created_at);
  const partitions = topics.flatMap((topic) =>
    Array.from({ length: log.topics.get(topic)?.partitions ?? 0 }, (_, partition) => ({ topic, partition })),
  );
  return Promise.all(
    partitions.map(async ({ topic, partition }): Promise<PartitionBounds> => {
      const offsetAt = (ms: number) => log.offsetAt(topic, partition, ms);
      const [first, begin, end] = await Promise.all([
        log.first(topic, partition),
        offsetAt(since),
        replay === undefined ? log.end(topic, partition) : offsetAt(Date.parse(replay.until)),
      ]);
      const start = Math.max(first, begin);
      return { topic, partition, first, start, end: Math.max(start, end) };
    }),
  );
}

/** Where a lane goes on, and what it has lost. */
export interface Continuation {
  /** `to` is as far as it may be read now. */
  readonly ranges: readonly LogRange[];
  /** Records that the log dropped before they were loaded. */
  readonly missed: readonly LogRange[];
  /** Partitions that end before the ledger: the log is another one, such as one from a backup, and is read from its start. */
  readonly replaced: readonly LogRange[];
}

/** A lane goes on where its newest ledger row ends. What the log no longer keeps is missed, never skipped in silence. */
export function continuation(
  bounds: readonly PartitionBounds[],
  newest: LedgerRow | undefined,
): Continuation {
  const done = new Map(newest?.ranges.map((range) => [`${range.topic}/${range.partition}`, range.to]));
  const missed: LogRange[] = [];
  const replaced: LogRange[] = [];
  const ranges = bounds.map(({ topic, partition, first, start, end }): LogRange => {
    const to = done.get(`${topic}/${partition}`);
    if (to === undefined) return { topic, partition, from: start, to: end };
    if (to > end && newest?.lane === LIVE_LANE) {
      replaced.push({ topic, partition, from: end, to });
      // Rows that are there already are left alone.
      return { topic, partition, from: first, to: end };
    }
    if (to < first && to < end) missed.push({ topic, partition, from: to, to: Math.min(first, end) });
    const from = to < end ? Math.min(Math.max(to, first), end) : to;
    return { topic, partition, from, to: Math.max(from, end) };
  });
  return { ranges, missed, replaced };
}

/** Text for people. */
export function rangesText(ranges: readonly LogRange[]): string {
  return ranges.map(({ topic, partition, from, to }) => `${topic}/${partition} ${from} to ${to}`).join(', ');
}
