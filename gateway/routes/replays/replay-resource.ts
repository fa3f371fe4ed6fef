import {
  DEFAULT_REPLAY_RATE,
  ENVIRONMENTS,
  EVENT_TYPES,
  type HistoryEntry,
  MAX_REPLAY_RATE,
  type Replay,
  type ReplayStep,
  replayProgress,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import { closed, listOf, nullable, oneOf, optional, time, uuid } from '../../resources/schemas.ts';
import { timeText } from '../../resources/values.ts';

/** Replays are kept permanently, so their size is bounded. */
const MAX_EVENT_NAMES = 20;
const MAX_NAME_LENGTH = 200;

const rate = Type.Integer({
  minimum: 1,
  maximum: MAX_REPLAY_RATE,
  description: `Events sent on in a second, at most. Default ${DEFAULT_REPLAY_RATE}.`,
});

const OUTCOMES = ['accepted', 'rejected'] as const;

const filters = {
  event_types: optional(
    Type.Array(oneOf(EVENT_TYPES), { uniqueItems: true, description: 'Empty: all types. Default empty.' }),
  ),
  event_names: optional(
    Type.Array(Type.String({ minLength: 1, maxLength: MAX_NAME_LENGTH }), {
      uniqueItems: true,
      maxItems: MAX_EVENT_NAMES,
      description: 'Names of track events and pages. Empty: all events. Default empty.',
    }),
  ),
  environments: optional(
    Type.Array(oneOf(ENVIRONMENTS), { uniqueItems: true, description: 'Empty: all. Default empty.' }),
  ),
  contract_id: optional(
    Type.String({ format: 'uuid', description: 'The contract that accepted or rejected the events.' }),
  ),
  source_id: optional(Type.String({ format: 'uuid', description: 'The source that they came from.' })),
};

export const replayBody = closed(
  {
    outcome: optional(
      oneOf(
        OUTCOMES,
        '`accepted` (default): accepted events go to their destinations once more. `rejected`: rejected events are evaluated once more, by the contracts as they are now; those that pass are accepted, counted and forwarded, once.',
      ),
    ),
    ...filters,
    rule_id: optional(
      Type.String({
        format: 'uuid',
        description:
          'The one rule to replay for, also while it is disabled. Default: every enabled rule. Of accepted events alone.',
      }),
    ),
    since: timeText('ISO 8601; events that were accepted, or rejected, then or later.'),
    until: optional(timeText('ISO 8601; and before then. Default: now.')),
    events_per_second: optional(rate),
    new_ids: optional(
      Type.Boolean({
        description:
          'Whether each delivery reaches its destination under a new id, so that an idempotent one takes it again. Default false: under the id of the first delivery of the event. Of accepted events alone.',
      }),
    ),
  },
  {
    title: 'ReplayBody',
    examples: [{ since: '2026-03-01T00:00:00.000Z', until: '2026-03-02T00:00:00.000Z' }],
  },
);

export const replayResource = Type.Object(
  {
    id: uuid,
    workspace_id: uuid,
    outcome: oneOf(OUTCOMES),
    event_types: listOf(oneOf(EVENT_TYPES)),
    event_names: listOf(Type.String()),
    environments: listOf(oneOf(ENVIRONMENTS)),
    contract_id: nullable(uuid),
    source_id: nullable(uuid),
    rule_id: nullable(uuid),
    since: time,
    until: time,
    events_per_second: rate,
    new_ids: Type.Boolean({
      description: 'Whether destinations receive new ids; true on replays made before this could be chosen.',
    }),
    status: oneOf(
      ['pending', 'running', 'finished', 'cancelled', 'failed'],
      '`pending`: not begun, or so long ago that no more is known.',
    ),
    reason: nullable(Type.String({ description: 'Why it failed.' })),
    progress: Type.Object({
      share: Type.Number({ description: 'The share of the entries that is read, 0 to 1.' }),
      looked_at: Type.Integer({ description: 'Events that were read, those of other workspaces too.' }),
      events: Type.Integer({
        description:
          'Those of them that went on: to at least one rule; of rejected ones those that their contract lets pass now, also where the same message id was accepted meanwhile, so that they are dropped as repeats.',
      }),
      still_rejected: Type.Integer({ description: 'Rejected events that their contract still rejects.' }),
      updated_at: nullable(time),
    }),
    created_by: uuid,
    created_at: time,
  },
  { title: 'Replay' },
);

export const replayList = listOf(replayResource);

/** `entry`: the newest step in history; undefined before the first. */
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
      share: step === undefined ? 0 : Math.round(replayProgress(step) * 1_000) / 1_000,
      looked_at: step?.looked_at ?? 0,
      events: step?.events ?? 0,
      still_rejected: step?.still_rejected ?? 0,
      updated_at: step?.at ?? null,
    },
    created_by: replay.created_by,
    created_at: replay.created_at,
  };
}

/** A cancelled replay forwards nothing, also before a step records it, unless it had ended. */
function statusOf(replay: Replay, step: ReplayStep | undefined) {
  const status = step?.status ?? 'pending';
  const goesOn = status === 'pending' || status === 'running';
  return goesOn && replay.status === 'cancelled' ? 'cancelled' : status;
}
