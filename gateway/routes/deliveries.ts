import {
  type CanonicalEvent,
  DEAD_CAUSES,
  type DeadCause,
  type DeliveryAttempt,
  type DeliveryOutcome,
  defined,
  ENVIRONMENTS,
  type FailureGroup,
  type History,
  iso,
  isUuid,
  outcomeOfEntry,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { Routes } from '../dependencies.ts';
import { conflict, notFound } from '../errors/api-error.ts';
import { inPath } from '../resources/catalog-entities.ts';
import { linkNext, type PageRequest, pageQuery, pageRequest, withCursor } from '../resources/lists.ts';
import {
  boolean,
  closed,
  freeObject,
  type IntegerRule,
  integer,
  integerText,
  listOf,
  noBody,
  nullable,
  oneOf,
  operation,
  optional,
  parseInteger,
  shownAs,
  string,
  time,
  uuid,
} from '../resources/schemas.ts';
import { SummedCalls } from '../resources/summed-calls.ts';
import {
  DeadDeliveries,
  type DeliveryFilter,
  eventOf,
  filterBody,
  filterOf,
  filterQuery,
  historyQuery,
  isKept,
  selects,
  statedOnce,
} from './redrive.ts';

const STATUSES = ['retrying', 'delivered', 'unwanted', 'dead', 'discarded'] as const;

const deliveryQuery = closed({
  ...pageQuery,
  status: Type.Optional(oneOf(STATUSES)),
  ...filterQuery,
});

export const attempt = Type.Object(
  {
    at: time,
    outcome: oneOf(['delivered', 'retry', 'dead']),
    throttled: boolean(
      'Whether the destination refused it for the rate of requests alone: it used no step of the retry schedule.',
    ),
    reason: nullable(Type.String()),
    status: nullable(integer('HTTP status, where there was one.')),
    response: nullable(string('The start of the destination’s response.')),
    duration_ms: Type.Number(),
  },
  { title: 'Attempt' },
);

const fields = {
  id: uuid,
  status: oneOf(STATUSES),
  environment: oneOf(ENVIRONMENTS),
  destination_id: uuid,
  rule_id: uuid,
  message_id: Type.String(),
  replay_id: nullable(uuid),
  idempotency_key: string(
    'The id that the destination receives: `id`, or of a replay without `new_ids` that of the first delivery.',
    'uuid',
  ),
  reason: nullable(string('Why it is retrying or dead.')),
  cause: nullable(oneOf(DEAD_CAUSES, 'The cause of its death.')),
  attempts: listOf(attempt, 'Oldest first.'),
  created_at: time,
  updated_at: time,
  next_attempt_at: nullable(time),
};

const deliveryListed = Type.Object(fields, { title: 'Delivery' });

const deliveryResource = Type.Object(
  {
    ...fields,
    event: nullable(
      freeObject(
        'The event as it is delivered; null where the log no longer has it: it cannot be sent again.',
      ),
    ),
  },
  { title: 'DeliveryWithEvent' },
);

const cursor = Type.String({
  minLength: 1,
  maxLength: 1_000,
  description: 'From the previous response: continues where that call stopped.',
});

const deadFields = {
  status: optional(oneOf(['dead'], 'Only dead deliveries can be redriven or discarded.')),
  ...filterBody,
  cursor: optional(cursor),
};
const deadExamples = { examples: [{ status: 'dead', since: '2026-03-01T00:00:00.000Z' }] };

const deadBody = nullable(closed(deadFields, deadExamples));

const redriveBody = nullable(
  closed(
    {
      ...deadFields,
      dry_run: optional(boolean('Only counts those that would be redriven; answers 200.')),
    },
    deadExamples,
  ),
);

const deadQuery = closed({
  status: Type.Optional(oneOf(['dead'])),
  ...filterQuery,
  cursor: Type.Optional(cursor),
});

const rest = {
  more: boolean('A call has a limit: call again with `cursor` for the rest.'),
  cursor: nullable(string('The cursor of the next call; null at the end.')),
};

const redriven = Type.Object(
  {
    redriven: integer('The number of redriven deliveries; of a dry run, of those that would be.'),
    ...rest,
  },
  { title: 'Redriven' },
);

const discarded = Type.Object(
  {
    discarded: integer('The number of discarded deliveries.'),
    ...rest,
  },
  { title: 'Discarded' },
);

function presentDelivery(outcome: DeliveryOutcome): Static<typeof deliveryListed> {
  const { delivery, at } = outcome;
  return shownAs(
    deliveryListed,
    { ...delivery, ...outcome },
    {
      replay_id: delivery.replay ?? null,
      idempotency_key: delivery.idempotency_key ?? delivery.id,
      attempts: delivery.attempts.map(presentAttempt),
      updated_at: at,
    },
  );
}

function presentDeliveryDetail(
  outcome: DeliveryOutcome,
  event: CanonicalEvent | undefined,
): Static<typeof deliveryResource> {
  const shown = (event ?? null) as unknown as Static<typeof deliveryResource>['event'];
  return { ...presentDelivery(outcome), event: shown };
}

export function presentAttempt(made: DeliveryAttempt) {
  return shownAs(attempt, made, { throttled: made.throttled === true });
}

const GROUPED_STATUSES = ['dead', 'retrying'] as const;
const LIMIT: IntegerRule = { name: 'limit', min: 1, max: 200, fallback: 100 };

const groupsQuery = closed({
  limit: integerText(LIMIT, 'Groups at most, those with the most deliveries.'),
  status: Type.Optional(oneOf(GROUPED_STATUSES, 'Default: both.')),
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
    status: oneOf(GROUPED_STATUSES),
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
    newest_at: string('When the event of the newest was received.', 'date-time'),
    newest_id: string('The newest delivery, as an example.', 'uuid'),
  },
  { title: 'DeliveryGroup' },
);

const deliveryGroups = Type.Object(
  {
    groups: listOf(deliveryGroup, 'The largest first.'),
    more: boolean('Whether there are further groups.'),
  },
  { title: 'DeliveryGroups' },
);

/** Dead and retrying deliveries of a workspace, counted by their failure. */
async function groupsOf(
  history: Pick<History, 'groups'>,
  workspaceId: string,
  { limit, status, destination_id, rule_id, cause }: Static<typeof groupsQuery>,
): Promise<Static<typeof deliveryGroups>> {
  const { groups, more } = await history.groups({
    kind: 'delivery',
    workspaceId,
    values: defined({
      status,
      destination_id: destination_id?.toLowerCase(),
      rule_id: rule_id?.toLowerCase(),
      cause,
    }),
    limit: parseInteger(limit, LIMIT),
  });
  const presented = groups.map(({ id, values, count, firstAt, lastAt, newest }) => {
    const group = values as FailureGroup; // as `historyEntryOfOutcome` makes them
    return shownAs(deliveryGroup, group, {
      group: id,
      cause: group.cause === '' ? null : (group.cause as DeadCause),
      response_status: group.response_status === '' ? null : Number(group.response_status),
      deliveries: count,
      oldest_at: iso(firstAt),
      newest_at: iso(lastAt),
      newest_id: newest,
    });
  });
  return { groups: presented, more };
}

const path = '/workspaces/:workspaceId/deliveries';

/** `/workspaces/:workspaceId/deliveries`: retrying, dead and redriven deliveries; redriving and discarding them. */
export const deliveryRoutes: Routes = async (app, dependencies) => {
  const { history, log } = dependencies;
  const dead = new DeadDeliveries(dependencies);
  const summed = new SummedCalls(app, dependencies);
  const audited = (request: FastifyRequest, name: 'redriven' | 'discarded') =>
    summed.count(
      request,
      { name, entity: 'delivery' },
      { scope_id: request.workspace.id, organization_id: request.workspace.organization_id },
    );

  app.get(
    path,
    operation(
      'deliveries.list',
      'listDeliveries',
      'List deliveries that were retried or ended otherwise than at their first try',
      { querystring: deliveryQuery, response: { 200: listOf(deliveryListed) } },
    ),
    async (request, reply) => {
      const { query, workspace } = request;
      const filter = { ...filterOf(query, undefined), status: query.status };
      const { outcomes, next } = await listOutcomes(history, workspace.id, filter, pageRequest(query));
      linkNext(request, reply, next);
      return outcomes.map(presentDelivery);
    },
  );

  app.get(
    `${path}/groups`,
    operation(
      'deliveries.list',
      'groupDeliveries',
      'Count dead and retrying deliveries by what they failed with',
      { querystring: groupsQuery, response: { 200: deliveryGroups } },
    ),
    async ({ query, workspace }) => await groupsOf(history, workspace.id, query),
  );

  app.get(
    `${path}/:deliveryId`,
    operation('deliveries.read', 'readDelivery', 'Read a delivery with its event', {
      response: { 200: deliveryResource },
    }),
    async (request) => {
      const outcome = await outcomeNamed(request);
      const event = await eventOf(log, outcome.delivery);
      return presentDeliveryDetail(outcome, event);
    },
  );

  app.post(
    `${path}/:deliveryId/redrive`,
    operation('deliveries.redrive', 'redriveDelivery', 'Send a dead delivery again', {
      body: noBody,
      response: { 202: redriven },
    }),
    async (request, reply) => {
      const outcome = await outcomeNamed(request);
      if (outcome.status === 'dead' && !(await isKept(log, outcome.delivery)))
        throw conflict('event_not_kept');
      const noteChanged = await audited(request, 'redriven');
      if ((await dead.redrive([outcome])) === 0) throw conflict('not_dead');
      noteChanged([outcome.delivery.id]);
      return reply.code(202).send({ redriven: 1, more: false, cursor: null });
    },
  );

  app.post(
    `${path}/redrive`,
    operation('deliveries.redrive', 'redriveDeliveries', 'Send dead deliveries again', {
      querystring: deadQuery,
      body: redriveBody,
      response: { 200: redriven, 202: redriven },
    }),
    async (request, reply) => {
      const { query, body, workspace } = request;
      const cursor = statedOnce('cursor', query.cursor, body?.cursor);
      if (body?.dry_run === true) {
        const { done, ...rest } = await dead.toAll(dead.count, workspace.id, filterOf(query, body), cursor);
        return { redriven: done, ...rest };
      }
      const noteChanged = await audited(request, 'redriven');
      const { done, ...rest } = await dead.toAll(dead.redrive, workspace.id, filterOf(query, body), cursor);
      noteChanged([], done);
      return reply.code(202).send({ redriven: done, ...rest });
    },
  );

  app.post(
    `${path}/:deliveryId/discard`,
    operation('deliveries.discard', 'discardDelivery', 'Let a dead delivery be', {
      body: noBody,
      response: { 202: discarded },
    }),
    async (request, reply) => {
      const outcome = await outcomeNamed(request);
      if (outcome.status !== 'discarded') {
        const noteChanged = await audited(request, 'discarded');
        if ((await dead.discard([outcome])) === 0) throw conflict('not_dead');
        noteChanged([outcome.delivery.id]);
      }
      return reply.code(202).send({ discarded: 1, more: false, cursor: null });
    },
  );

  app.post(
    `${path}/discard`,
    operation('deliveries.discard', 'discardDeliveries', 'Let dead deliveries be', {
      querystring: deadQuery,
      body: deadBody,
      response: { 202: discarded },
    }),
    async (request, reply) => {
      const { query, body, workspace } = request;
      const cursor = statedOnce('cursor', query.cursor, body?.cursor);
      const noteChanged = await audited(request, 'discarded');
      const { done, ...rest } = await dead.toAll(dead.discard, workspace.id, filterOf(query, body), cursor);
      noteChanged([], done);
      return reply.code(202).send({ discarded: done, ...rest });
    },
  );

  async function outcomeNamed(request: FastifyRequest): Promise<DeliveryOutcome> {
    const id = inPath(request, 'deliveryId');
    const entry = isUuid(id)
      ? await history.get('delivery', request.workspace.id, id.toLowerCase())
      : undefined;
    if (entry === undefined) throw notFound();
    return outcomeOfEntry(entry);
  }
};

/** Entries that one call reads for a filter by reason, at most, and those of one page. */
const MAX_READ = 2_000;
const PAGE = 500;

interface ListedPage {
  readonly outcomes: readonly DeliveryOutcome[];
  readonly next: string | undefined;
}

/**
 * A page of outcomes, newest first, without their events. With a filter by reason, which is not indexed, a page may be
 * short without being the last, as a call reads `MAX_READ` entries at most.
 */
async function listOutcomes(
  history: Pick<History, 'list'>,
  workspaceId: string,
  filter: DeliveryFilter & { readonly status?: string | undefined },
  { limit, cursor }: PageRequest,
): Promise<ListedPage> {
  const query = historyQuery(workspaceId, filter, filter.status);
  const isSelected = selects(filter);
  const outcomes: DeliveryOutcome[] = [];
  let next = cursor;
  for (let readCount = 0; readCount < MAX_READ; ) {
    const wanted = limit - outcomes.length;
    const size = filter.reason === undefined ? wanted : Math.min(wanted, PAGE);
    const position = next === undefined ? {} : { cursor: next };
    const page = await withCursor(() => history.list({ ...query, limit: size, ...position }));
    outcomes.push(...page.entries.map(outcomeOfEntry).filter(isSelected));
    readCount += size;
    next = page.next;
    if (next === undefined || outcomes.length >= limit || filter.reason === undefined) break;
  }
  return { outcomes, next };
}
