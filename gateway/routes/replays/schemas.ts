import { DEFAULT_REPLAY_RATE, MAX_REPLAY_RATE } from '@tributary/core';
import { Type } from 'typebox';
import { closed, listOf, nullable, oneOf, optional, time, uuid } from '../../http/schemas.ts';
import { timeText } from '../../http/times.ts';

const rate = Type.Integer({
  minimum: 1,
  maximum: MAX_REPLAY_RATE,
  description: `Events sent on in a second, at most. Default ${DEFAULT_REPLAY_RATE}.`,
});

export const replayBody = closed(
  {
    rule_id: optional(
      Type.String({
        format: 'uuid',
        description: 'The one rule to replay for, also while it is disabled. Default: every enabled rule.',
      }),
    ),
    since: timeText('ISO 8601; events that were accepted then or later.'),
    until: optional(timeText('ISO 8601; and before then. Default: now.')),
    events_per_second: optional(rate),
    new_ids: optional(
      Type.Boolean({
        description:
          'Whether each delivery reaches its destination under a new id, so that an idempotent one takes it again. Default false: under the id of the first delivery of the event.',
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
      share: Type.Number({ description: 'Of what there is to read, 0 to 1.' }),
      looked_at: Type.Integer({ description: 'Accepted events that were read.' }),
      events: Type.Integer({ description: 'Those of them that went on to at least one rule.' }),
      updated_at: nullable(time),
    }),
    created_by: uuid,
    created_at: time,
  },
  { title: 'Replay' },
);

export const replayList = listOf(replayResource);
