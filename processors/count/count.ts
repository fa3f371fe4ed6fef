import {
  type BatchStage,
  HEADER,
  type KeyUse,
  type LogEntry,
  type Metrics,
  PathMap,
  parseObject,
  type RejectedEvent,
  TOPIC,
  type VolumeCounters,
  type VolumeIncrement,
} from '@tributary/core';
import { countedEventIn, RecordedEvent } from '../event-record.ts';
import { type Counting, countOnce } from './count-once.ts';

export interface CountDependencies {
  readonly counters: VolumeCounters;
  readonly metrics: Metrics;
}

/** The stage `count`: counts each event once, as the counters and the applied offset change together. */
export function count({ counters, metrics }: CountDependencies): BatchStage['process'] {
  return countOnce(volumeCounting(counters), (topic, entries) =>
    metrics.count('tributary_events_counted_total', { topic }, entries),
  );
}

/** The increments of `count`: volumes and key uses of entries, added to the counters. */
export function volumeCounting(counters: VolumeCounters): Counting<Tally> {
  return { store: counters, tally };
}

const HOUR_MS = 3_600_000;

export interface Tally {
  readonly increments: readonly VolumeIncrement[];
  readonly keyUses: readonly KeyUse[];
}

/** Accepted events by hour of reception, and uses of write keys by accepted and rejected events. */
export function tally(topic: string, entries: readonly LogEntry[]): Tally {
  const increments = new Increments();
  const uses = new Map<string, KeyUse>();
  for (const entry of entries) {
    const event = topic === TOPIC.rejected ? undefined : new RecordedEvent(entry);
    const receivedAt = event?.counted.receivedAt ?? rejectedAt(entry);
    if (event !== undefined) increments.add(event);
    const keyId = entry.headers[HEADER.keyId];
    if (keyId !== undefined && (uses.get(keyId)?.at ?? 0) < receivedAt) {
      uses.set(keyId, { keyId, at: receivedAt });
    }
  }
  return { increments: increments.all, keyUses: [...uses.values()] };
}

/** When a rejected event was received, epoch ms. */
function rejectedAt({ headers, value }: LogEntry): number {
  const known = countedEventIn(headers);
  if (known !== undefined) return known.receivedAt;
  return Date.parse((parseObject(value) as unknown as RejectedEvent).event.received_at);
}

class Increments {
  readonly all: (VolumeIncrement & { count: number })[] = [];
  readonly #places = new PathMap<string | number, { count: number }>();

  add({ workspace_id: workspaceId, environment, type: eventType, name, counted }: RecordedEvent): void {
    const hour = counted.receivedAt - (counted.receivedAt % HOUR_MS);
    const place = this.#places.at(workspaceId).at(environment).at(eventType).at(name).at(hour);
    if (place.value === undefined) {
      const increment = { workspaceId, environment, eventType, eventName: name, hour, count: 0 };
      this.all.push(increment);
      place.value = increment;
    }
    place.value.count += 1;
  }
}
