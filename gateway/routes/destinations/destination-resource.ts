import {
  BAD_REASONS,
  type Destination,
  type DestinationHealth,
  ENVIRONMENTS,
  iso,
  type JsonObject,
  MAX_CALLS_PER_SECOND,
  MAX_CONCURRENCY,
  MIN_CALLS_PER_SECOND,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import { alertsBody, alertsResource } from '../../resources/alerts.ts';
import {
  closed,
  freeObject,
  listOf,
  name,
  nullable,
  oneOf,
  optional,
  resourceFields,
  time,
  times,
  uuid,
  version,
} from '../../resources/schemas.ts';
import { maskSecrets } from './destination-settings.ts';

const type = Type.String({ description: 'The connector that speaks to it.' });

const concurrency = Type.Integer({
  minimum: 1,
  maximum: MAX_CONCURRENCY,
  description: 'Concurrent requests of the whole installation. Default: the operator’s setting.',
});

const rate = Type.Number({
  minimum: MIN_CALLS_PER_SECOND,
  maximum: MAX_CALLS_PER_SECOND,
  description:
    'Calls that begin in a second, of the whole installation; a call carries one delivery, or a batch. Default: as the operator has set it.',
});

export const destinationBody = closed(
  {
    name,
    type,
    settings: optional(freeObject('By the schema of the connector.')),
    enabled: optional(Type.Boolean({ description: 'Default true.' })),
    max_concurrency: optional(concurrency),
    rate_limit_per_second: optional(rate),
    paused: optional(
      Type.Boolean({ description: 'While true deliveries wait, for as long as it takes. Default false.' }),
    ),
    environments: optional(
      Type.Array(oneOf(ENVIRONMENTS), {
        uniqueItems: true,
        minItems: 1,
        description: 'Events of other environments are not delivered, regardless of rules. Default all.',
      }),
    ),
    alerts: optional(alertsBody),
  },
  {
    title: 'DestinationBody',
    examples: [
      { name: 'CRM', type: 'webhook', settings: { url: 'https://crm.example.com/events', batch_size: 10 } },
    ],
  },
);

export const destinationResource = Type.Object(
  {
    ...resourceFields,
    type,
    settings: freeObject('Secrets are masked, but for those just generated in the answer to a creation.'),
    enabled: Type.Boolean(),
    max_concurrency: Type.Union([concurrency, Type.Null()]),
    rate_limit_per_second: Type.Union([rate, Type.Null()]),
    paused: Type.Boolean(),
    paused_because: nullable(Type.Object({ reason: oneOf(['gone'], 'It answered 410 Gone.'), at: time })),
    environments: listOf(oneOf(ENVIRONMENTS)),
    alerts: nullable(alertsResource),
    version,
    created_by: uuid,
    ...times,
  },
  { title: 'Destination' },
);

export const destinationTestResult = Type.Object(
  {
    ok: Type.Boolean({ description: 'Whether the destination is reachable and would accept deliveries.' }),
    reason: nullable(Type.String({ description: 'Why not.' })),
    status: nullable(Type.Integer({ description: 'HTTP status, where there was one.' })),
    response: nullable(Type.String({ description: 'The start of its response.' })),
    duration_ms: Type.Integer(),
  },
  { title: 'DestinationTrial' },
);

/** Rates are of the last minute, over all processes; null without data. */
export const destinationHealth = Type.Object(
  {
    id: uuid,
    active: Type.Boolean({
      description: 'Whether a delivering process reported it in the last two minutes.',
    }),
    at: nullable(time),
    state: oneOf(['well', 'bad'], 'As alerts reported last.'),
    because: nullable(
      oneOf(
        BAD_REASONS,
        'Why it is unhealthy: its circuit is open, most attempts fail, more deliveries are deferred than made, deliveries wait too long, or it answered 410 Gone.',
      ),
    ),
    state_since: nullable(time),
    delivered_per_second: Type.Number(),
    failed_per_second: Type.Number({ description: 'Attempts that did not deliver.' }),
    put_off_per_second: Type.Number({ description: 'Deliveries that were deferred without an attempt.' }),
    p50_ms: nullable(Type.Number()),
    p99_ms: nullable(Type.Number()),
    waiting: Type.Integer({
      description: 'Deliveries that wait for a request. Those in retry are in the list of deliveries.',
    }),
    under_way: Type.Integer(),
    oldest_waiting_ms: nullable(Type.Number()),
    circuit: nullable(oneOf(['closed', 'half-open', 'open'])),
    circuit_since: nullable(time),
    last_delivered_at: nullable(time),
    last_errors: listOf(
      Type.Object({
        at: time,
        outcome: oneOf(['retry', 'dead']),
        reason: Type.String(),
        status: nullable(Type.Integer({ description: 'HTTP status, where there was one.' })),
      }),
      'Newest first, at most five.',
    ),
  },
  { title: 'DestinationHealth' },
);

export const destinationList = listOf(destinationResource);

/** `generated`: secrets that were generated with the destination, shown only in this response. */
export function presentDestination(
  destination: Destination,
  secrets: readonly string[],
  generated: JsonObject = {},
): Static<typeof destinationResource> {
  return {
    id: destination.id,
    workspace_id: destination.workspace_id,
    name: destination.name,
    type: destination.type,
    settings: { ...maskSecrets(destination.settings, secrets), ...generated },
    enabled: destination.enabled,
    max_concurrency: destination.max_concurrency ?? null,
    rate_limit_per_second: destination.rate_limit_per_second ?? null,
    paused: destination.paused ?? false,
    paused_because: destination.paused_because ?? null,
    environments: destination.environments ?? ENVIRONMENTS,
    alerts: destination.alerts ?? null,
    version: destination.version,
    created_by: destination.created_by,
    created_at: destination.created_at,
    updated_at: destination.updated_at,
  };
}

/** `health`: undefined for a destination that no process reports: it has no deliveries, or no process delivers. */
export function presentHealth(
  { id, condition }: Pick<Destination, 'id' | 'condition'>,
  health: DestinationHealth | undefined,
): Static<typeof destinationHealth> {
  return {
    id,
    active: health !== undefined,
    at: timeOf(health?.at),
    state: condition?.state ?? 'well',
    because: condition?.because ?? null,
    state_since: condition?.since ?? null,
    delivered_per_second: health?.delivered_per_second ?? 0,
    failed_per_second: health?.failed_per_second ?? 0,
    put_off_per_second: health?.put_off_per_second ?? 0,
    p50_ms: health?.p50_ms ?? null,
    p99_ms: health?.p99_ms ?? null,
    waiting: health?.waiting ?? 0,
    under_way: health?.under_way ?? 0,
    oldest_waiting_ms: health?.oldest_waiting_ms ?? null,
    circuit: health?.circuit ?? null,
    circuit_since: timeOf(health?.circuit_since),
    last_delivered_at: timeOf(health?.last_delivered_at),
    last_errors: (health?.last_errors ?? []).map(({ at, outcome, reason, status }) => ({
      at: iso(at),
      outcome,
      reason,
      status: status ?? null,
    })),
  };
}

function timeOf(ms: number | null | undefined): string | null {
  return ms == null ? null : iso(ms);
}
