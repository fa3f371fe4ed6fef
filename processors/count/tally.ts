import {
  type CanonicalEvent,
  eventName,
  HEADER,
  type KeyUse,
  type LogEntry,
  parseObject,
  type RejectedEvent,
  TOPIC,
  type VolumeIncrement,
} from '@tributary/core';
import { eventOf } from '../entry.ts';

const HOUR_MS = 3_600_000;

export interface Tally {
  readonly increments: readonly VolumeIncrement[];
  readonly keyUses: readonly KeyUse[];
}

/** Volume counts accepted events by the hour they were received; the use of a write key counts for rejected ones too. */
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
