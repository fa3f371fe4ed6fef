import { type HistoryEntry, type Replay, type ReplayStep, shareDone } from '@tributary/core';
import type { Static } from 'typebox';
import type { replayResource } from './schemas.ts';

/** `entry` is what history has of its newest step; undefined before the first. */
export function presentReplay(
  replay: Replay,
  entry: HistoryEntry | undefined,
): Static<typeof replayResource> {
  const step = entry?.body as unknown as ReplayStep | undefined;
  return {
    id: replay.id,
    workspace_id: replay.workspace_id,
    outcome: replay.outcome ?? 'accepted',
    event_types: [...(replay.event_types ?? [])],
    event_names: [...(replay.event_names ?? [])],
    environments: [...(replay.environments ?? [])],
    contract_id: replay.contract_id ?? null,
    source_id: replay.source_id ?? null,
    rule_id: replay.rule_id,
    since: replay.since,
    until: replay.until,
    events_per_second: replay.events_per_second,
    new_ids: replay.new_ids ?? true,
    status: statusOf(replay, step),
    reason: step?.reason ?? null,
    progress: {
      share: step === undefined ? 0 : Math.round(shareDone(step) * 1_000) / 1_000,
      looked_at: step?.looked_at ?? 0,
      events: step?.events ?? 0,
      still_rejected: step?.still_rejected ?? 0,
      updated_at: step?.at ?? null,
    },
    created_by: replay.created_by,
    created_at: replay.created_at,
  };
}

/** One that was cancelled sends nothing on any more, also before its next step says so, unless it had come to its end. */
function statusOf(replay: Replay, step: ReplayStep | undefined) {
  const status = step?.status ?? 'pending';
  const goesOn = status === 'pending' || status === 'running';
  return goesOn && replay.status === 'cancelled' ? 'cancelled' : status;
}
