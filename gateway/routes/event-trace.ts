import {
  DEAD_CAUSES,
  type DeliveryTrace,
  defined,
  ENVIRONMENTS,
  type EntryLocation,
  type EventTrace,
  iso,
  MISMATCHES,
  type RuleTrace,
  stageOf,
  statusOf,
  TRACE_STAGES,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import type { Routes } from '../dependencies.ts';
import { ApiError } from '../errors/api-error.ts';
import { EventTracer } from '../event-search/event-tracer.ts';
import { disconnectSignal } from '../limits/turns.ts';
import { inPath } from '../resources/catalog-entities.ts';
import {
  boolean,
  closed,
  freeObject,
  integer,
  listOf,
  nullable,
  oneOf,
  operation,
  parseTime,
  shownAs,
  string,
  time,
  timeText,
  uuid,
} from '../resources/schemas.ts';
import { OUTCOMES, violation } from './contract-fields.ts';
import { attempt, presentAttempt } from './deliveries.ts';

const traceQuery = closed({
  environment: Type.Optional(
    oneOf(ENVIRONMENTS, 'Where one id was sent to both. Default: production first.'),
  ),
  around: Type.Optional(
    timeText(
      'The approximate time of its receipt, ISO 8601: for an event whose id contains no time and that is older than the deduplication window.',
    ),
  ),
  subject: Type.Optional(
    Type.String({
      minLength: 1,
      description: 'Its `user_id`, else `anonymous_id`: speeds up that search.',
    }),
  ),
});

const position = Type.Object(
  {
    topic: Type.String(),
    partition: Type.Integer(),
    offset: Type.Integer(),
    index: Type.Integer(),
  },
  { title: 'LogPosition' },
);

const stage = nullable(oneOf(TRACE_STAGES, 'The stage it waits for; null when for none.'));

const delivery = Type.Object(
  {
    id: uuid,
    index: integer('Which output of the transformation; 0 without one.'),
    destination_id: uuid,
    status: oneOf(
      ['pending', 'retrying', 'delivered', 'unwanted', 'dead', 'discarded', 'unknown'],
      '`unknown` when the log was not read completely, or a stage dead-lettered the delivery.',
    ),
    stage,
    first_try: boolean('Delivered at its first attempt, of which no record is kept: `attempts` is empty.'),
    attempts: listOf(attempt, 'Oldest first.'),
    reason: nullable(Type.String()),
    cause: nullable(oneOf(DEAD_CAUSES)),
    created_at: time,
    next_attempt_at: nullable(time),
  },
  { title: 'WhereaboutsDelivery' },
);

const rule = Type.Object(
  {
    rule_id: uuid,
    name: Type.String(),
    version: integer('The current version of the rule, with which the event is evaluated.'),
    destination_id: uuid,
    matched: nullable(boolean('Null when it is unknown.')),
    because: nullable(oneOf([...MISMATCHES, 'not_at_the_time', 'over_budget'], 'Why it did not match.')),
    message: nullable(string('How the filter failed.')),
    changed_since: boolean(
      'The rule or its destination was made or changed after the event was accepted: the deliveries show whether the rule matched.',
    ),
    stage,
    transformation_id: nullable(uuid),
    transformation: oneOf(['none', 'outputs', 'dropped', 'failed', 'unknown']),
    deliveries: listOf(delivery),
  },
  { title: 'WhereaboutsRule' },
);

const load = Type.Object(
  {
    destination_id: uuid,
    status: oneOf(
      ['waiting', 'loaded', 'before', 'unknown'],
      '`loaded`: the load that read it is done; a transformation of its rule may have dropped it. `before`: it was accepted before the warehouse was made, so only a replay loads it.',
    ),
    load_id: nullable(string('Null also where the load was not found.')),
    loaded_at: nullable(time),
    discards: nullable(
      listOf(
        Type.Object({
          table: string('Empty: the whole event.'),
          column: string('Empty: the whole row.'),
          reason: Type.String(),
        }),
        'What of it is in the table `discards`; null while that is not known.',
      ),
    ),
  },
  { title: 'WhereaboutsLoad' },
);

const contractFields = { contract_id: nullable(uuid), contract_version: nullable(Type.Integer()) };

const reevaluated = Type.Object(
  {
    outcome: oneOf<(typeof OUTCOMES)[number]>(['accepted', 'warned', 'omitted']),
    ...contractFields,
    replay_id: uuid,
    at: time,
  },
  { description: 'It was rejected, and a replay of rejected events let it pass.' },
);

const contract = Type.Object({
  outcome: oneOf(OUTCOMES),
  ...contractFields,
  violations: listOf(violation),
  reevaluated: nullable(reevaluated),
});

const traceResource = Type.Object(
  {
    message_id: Type.String(),
    environment: oneOf(ENVIRONMENTS),
    status: oneOf([
      'under_way',
      'delivered',
      'dead',
      'discarded',
      'loaded',
      'not_forwarded',
      'rejected',
      'failed',
      'unknown',
    ]),
    stage,
    received: Type.Object({
      at: time,
      position,
      key_id: nullable(string('The write key that sent it.')),
    }),
    contract: nullable(contract),
    accepted: nullable(Type.Object({ at: time, position })),
    failed: nullable(
      Type.Object(
        { stage: Type.String(), error: Type.String() },
        { description: 'A stage dead-lettered it.' },
      ),
    ),
    rules: listOf(rule),
    loads: listOf(load, 'Warehouses that take it.'),
    event: freeObject('As it was received.'),
    looked: Type.Object(
      {
        complete: boolean('False when something was not read for lack of time.'),
        entries: Type.Integer(),
        duration_ms: Type.Integer(),
        unanswered: listOf(Type.String(), 'Engines that did not answer.'),
      },
      { description: 'How much was read.' },
    ),
  },
  { title: 'Whereabouts' },
);

type Resource = Static<typeof traceResource>;

function presentTrace(trace: EventTrace): Resource {
  const { event, received, key_id, accepted, poisoned, rules, loads, scan } = trace;
  return {
    message_id: event.message_id,
    environment: event.environment,
    status: statusOf(trace),
    stage: stageOf(trace) ?? null,
    received: { ...presentEntryLocation(received), at: event.received_at, key_id: key_id ?? null },
    contract: presentContract(trace.contract),
    accepted: accepted === undefined ? null : presentEntryLocation(accepted),
    failed: poisoned ?? null,
    rules: rules.map(presentRuleTrace),
    loads: loads.map((one) =>
      shownAs(load, one, { load_id: one.load?.id ?? null, loaded_at: one.load?.at ?? null }),
    ),
    event: event as unknown as Resource['event'],
    looked: scan,
  };
}

function presentContract(step: EventTrace['contract']): Resource['contract'] {
  if (step === undefined) return null;
  const again = step.reevaluated;
  return shownAs(contract, step, {
    reevaluated: again === undefined ? null : shownAs(reevaluated, again, { at: iso(again.at) }),
  });
}

function presentEntryLocation({ position, at }: EntryLocation) {
  return { at: iso(at), position };
}

function presentRuleTrace(trace: RuleTrace): Resource['rules'][number] {
  const { mismatch } = trace;
  const isUndecided =
    trace.stage === undefined && trace.deliveries.length === 0 && trace.transformation === 'unknown';
  return shownAs(rule, trace, {
    matched: mismatch !== undefined ? false : isUndecided ? null : true,
    because: mismatch?.because ?? null,
    message: mismatch !== undefined && 'message' in mismatch ? (mismatch.message ?? null) : null,
    deliveries: trace.deliveries.map(presentDeliveryTrace),
  });
}

function presentDeliveryTrace(trace: DeliveryTrace): Resource['rules'][number]['deliveries'][number] {
  return shownAs(delivery, trace, { attempts: trace.attempts.map(presentAttempt) });
}

/** `GET /workspaces/:workspaceId/events/:messageId`: the path of an event through the pipeline. */
export const eventTraceRoutes: Routes = async (app, dependencies) => {
  const tracer = new EventTracer(dependencies);

  app.get(
    '/workspaces/:workspaceId/events/:messageId',
    operation('events.read', 'findEvent', 'Find where an event is', {
      querystring: traceQuery,
      response: { 200: traceResource },
    }),
    async (request, reply) => {
      const { workspace, query } = request;
      const around = parseTime('around', query.around);
      const { trace, coverage } = await tracer.trace(
        {
          workspaceId: workspace.id,
          messageId: inPath(request, 'messageId'),
          environments: query.environment === undefined ? ENVIRONMENTS : [query.environment],
          ...defined({ around, subject: query.subject }),
        },
        disconnectSignal(reply),
      );
      if (trace === undefined) throw new ApiError(404, 'not found', { fields: { looked: coverage } });
      return presentTrace(trace);
    },
  );
};
