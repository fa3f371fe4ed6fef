import {
  type Batch,
  type BatchStage,
  type CanonicalEvent,
  eventName,
  HEADER,
  type KeyUse,
  type LogEntry,
  type Metrics,
  parseObject,
  type RejectedEvent,
  Rewind,
  type StageContext,
  TOPIC,
  type VolumeCounters,
  type VolumeIncrement,
} from '@tributary/core';
import { eventOf } from '../event-record.ts';

export interface CountDependencies {
  readonly counters: VolumeCounters;
  readonly metrics: Metrics;
}

/** The stage `count`: counts each event once, as the counters and the applied offset change together. */
export function count({ counters, metrics }: CountDependencies): BatchStage['process'] {
  const offsets = new AppliedOffsets(counters);
  return async (batch, context) => {
    const { applied, from } = await offsets.pointOf(batch, context);
    const uncounted = batch.entries.filter((entry) => entry.position.offset >= from);
    const last = uncounted.at(-1);
    if (last === undefined) return [];
    const to = last.position.offset + 1;
    const { increments, keyUses } = tally(batch.topic, uncounted);
    try {
      await counters.apply({
        topic: batch.topic,
        partition: batch.partition,
        from: applied,
        to,
        increments,
        keyUses,
      });
    } catch (error) {
      offsets.forget(batch);
      throw error;
    }
    offsets.advance(batch, to);
    metrics.count('tributary_events_counted_total', { topic: batch.topic }, uncounted.length);
    return [];
  };
}

/**
 * Counts a redriven entry once. Its own partition was counted past it, so the applied offset of its partition of
 * `stages.dead` deduplicates; entries of one partition there must be redriven in order. Throws `Fenced` where another process
 * counts it.
 */
export async function recount(
  counters: VolumeCounters,
  entry: LogEntry,
  { topic, partition, offset }: LogEntry['position'],
  context: StageContext,
): Promise<void> {
  const from = await counters.applied({ topic, partition });
  if (from > offset && !(await isMadeAnew(from, context))) return;
  const { increments, keyUses } = tally(entry.position.topic, [entry]);
  await counters.apply({ topic, partition, from, to: offset + 1, increments, keyUses });
}

/** The start of counting in a batch. */
interface CountingPoint {
  /** The applied offset of the counters, which the next `apply` must name. */
  readonly applied: number;
  /** Everything before this offset is counted. */
  readonly from: number;
}

/**
 * The applied offsets of the counters, cached for each partition. The cache is dropped by `forget` after a failed apply, and
 * when the partition is revoked.
 */
class AppliedOffsets {
  readonly #counters: VolumeCounters;
  readonly #known = new Map<string, number>();
  /** The offset a partition was rewound to and has not been counted past since. */
  readonly #rewound = new Map<string, number>();
  readonly #watched = new WeakMap<AbortSignal, Set<string>>();

  constructor(counters: VolumeCounters) {
    this.#counters = counters;
  }

  /**
   * Throws `Rewind` where the counters are behind the batch, for example after their failover. Offsets have gaps (control
   * records, retention): a batch that still starts behind the applied offset after one rewind is behind such a gap.
   *
   * Of a repeated batch that starts before the applied offset only the rest is counted. If the partition ends before the
   * applied offset as well, the topic was recreated, and counting begins anew with the batch.
   */
  async pointOf(batch: Batch, context: StageContext): Promise<CountingPoint> {
    const name = nameOf(batch);
    const start = batch.entries[0]?.position.offset ?? 0;
    const known = this.#known.get(name);
    if (known !== undefined && known <= start) return { applied: known, from: known };
    const applied = await this.#counters.applied({ topic: batch.topic, partition: batch.partition });
    this.#forgetOnLoss(name, context.signal);
    if (applied < start && this.#rewound.get(name) !== applied) {
      this.#rewound.set(name, applied);
      throw new Rewind(applied);
    }
    if (applied > start && (await isMadeAnew(applied, context))) return { applied, from: start };
    this.#known.set(name, applied);
    return { applied, from: applied };
  }

  advance(batch: Batch, to: number): void {
    this.#known.set(nameOf(batch), to);
    this.#rewound.delete(nameOf(batch));
  }

  forget(batch: Batch): void {
    this.#known.delete(nameOf(batch));
  }

  /** `#rewound` stays: the log may abort the signal and create a new one in order to rewind. */
  #forgetOnLoss(name: string, signal: AbortSignal): void {
    const watched = this.#watched.get(signal);
    if (watched !== undefined) {
      watched.add(name);
      return;
    }
    const names = new Set([name]);
    this.#watched.set(signal, names);
    const forgetAll = () => {
      for (const lost of names) this.#known.delete(lost);
    };
    signal.addEventListener('abort', forgetAll, { once: true });
  }
}

/**
 * Whether the topic was recreated: no process counts past the end of a partition. The end must be read after the applied
 * offset, as another process may have counted past an older end.
 */
async function isMadeAnew(applied: number, context: StageContext): Promise<boolean> {
  return context.end !== undefined && applied > (await context.end());
}

function nameOf(batch: Batch): string {
  return `${batch.topic}/${batch.partition}`;
}

const HOUR_MS = 3_600_000;

export interface Tally {
  readonly increments: readonly VolumeIncrement[];
  readonly keyUses: readonly KeyUse[];
}

/** Accepted events by hour of reception, and uses of write keys by accepted and rejected events. */
export function tally(topic: string, entries: readonly LogEntry[]): Tally {
  const increments = new Map<string, VolumeIncrement>();
  const uses = new Map<string, KeyUse>();
  for (const entry of entries) {
    const event = topic === TOPIC.rejected ? rejectedEventOf(entry) : eventOf(entry);
    const receivedAt = Date.parse(event.received_at);
    if (topic === TOPIC.accepted) addEvent(increments, event, receivedAt);
    const keyId = entry.headers[HEADER.keyId];
    if (keyId !== undefined && (uses.get(keyId)?.at ?? 0) < receivedAt) {
      uses.set(keyId, { keyId, at: receivedAt });
    }
  }
  return { increments: [...increments.values()], keyUses: [...uses.values()] };
}

function rejectedEventOf(entry: LogEntry): CanonicalEvent {
  return (parseObject(entry.value) as unknown as RejectedEvent).event;
}

function addEvent(increments: Map<string, VolumeIncrement>, event: CanonicalEvent, receivedAt: number): void {
  const { workspace_id: workspaceId, environment, type: eventType } = event;
  const name = eventName(event);
  const hour = receivedAt - (receivedAt % HOUR_MS);
  const key = JSON.stringify([workspaceId, environment, eventType, name, hour]);
  const count = (increments.get(key)?.count ?? 0) + 1;
  increments.set(key, { workspaceId, environment, eventType, eventName: name, hour, count });
}
