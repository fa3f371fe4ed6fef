import { DEAD_CAUSES, type DeadCause, type FailureGroup, type History, iso } from '@tributary/core';
import { type Static, Type } from 'typebox';
import { closed, listOf, nullable, oneOf, time, uuid } from '../../resources/schemas.ts';
import { type IntegerRule, integerText, parseInteger } from '../../resources/values.ts';

const STATUSES = ['dead', 'retrying'] as const;
const LIMIT: IntegerRule = { name: 'limit', min: 1, max: 200, fallback: 100 };

export const groupsQuery = closed({
  limit: integerText(LIMIT, 'Groups at most, those with the most deliveries.'),
  status: Type.Optional(oneOf(STATUSES, 'Default: both.')),
  destination_id: Type.Optional(Type.String({ format: 'uuid' })),
  rule_id: Type.Optional(Type.String({ format: 'uuid' })),
  cause: Type.Optional(oneOf(DEAD_CAUSES, 'The cause of their death.')),
});

const deliveryGroup = Type.Object(
  {
    group: Type.String({
      description: 'For `group` of the list, of redrives and of discards.',
      examples: ['Zk3v0kq9dT1mJX2bq4uR7w'],
    }),
    status: oneOf(STATUSES),
    destination_id: uuid,
    rule_id: uuid,
    cause: nullable(oneOf(DEAD_CAUSES, 'The cause of their death.')),
    response_status: nullable(
      Type.Integer({
        description: 'The HTTP status of the last attempt, where there was one.',
        examples: [503],
      }),
    ),
    failure: Type.String({
      description: 'Their reason, with `…` for what differs from delivery to delivery.',
      examples: ['answered 503'],
    }),
    deliveries: Type.Integer({ description: 'How many there are.', examples: [1_204] }),
    oldest_at: time,
    newest_at: Type.String({
      format: 'date-time',
      description: 'When the event of the newest was received.',
    }),
    newest_id: Type.String({ format: 'uuid', description: 'The newest delivery, as an example.' }),
  },
  { title: 'DeliveryGroup' },
);

export const deliveryGroups = Type.Object(
  {
    groups: listOf(deliveryGroup, 'The largest first.'),
    more: Type.Boolean({ description: 'Whether there are further groups.' }),
  },
  { title: 'DeliveryGroups' },
);

/** Dead and retrying deliveries of a workspace, counted by their failure. */
export async function groupsOf(
  history: Pick<History, 'groups'>,
  workspaceId: string,
  { limit, status, destination_id, rule_id, cause }: Static<typeof groupsQuery>,
): Promise<Static<typeof deliveryGroups>> {
  const { groups, more } = await history.groups({
    kind: 'delivery',
    workspaceId,
    values: {
      ...(status === undefined ? {} : { status }),
      ...(destination_id === undefined ? {} : { destination_id: destination_id.toLowerCase() }),
      ...(rule_id === undefined ? {} : { rule_id: rule_id.toLowerCase() }),
      ...(cause === undefined ? {} : { cause }),
    },
    limit: parseInteger(limit, LIMIT),
  });
  const presented = groups.map(({ id, values, count, firstAt, lastAt, newest }) => {
    const group = values as FailureGroup; // as `historyEntryOfOutcome` makes them
    return {
      group: id,
      status: group.status,
      destination_id: group.destination_id,
      rule_id: group.rule_id,
      cause: group.cause === '' ? null : (group.cause as DeadCause),
      response_status: group.response_status === '' ? null : Number(group.response_status),
      failure: group.failure,
      deliveries: count,
      oldest_at: iso(firstAt),
      newest_at: iso(lastAt),
      newest_id: newest,
    };
  });
  return { groups: presented, more };
}
