import {
  BAD_REASONS,
  type CatalogView,
  type ConnectorDescription,
  type Destination,
  type DestinationHealth,
  ENVIRONMENTS,
  failedShare,
  type HealthResolution,
  type HealthSample,
  iso,
  type JsonObject,
  MAX_CALLS_PER_SECOND,
  MAX_CONCURRENCY,
  MIN_CALLS_PER_SECOND,
  mergeHealth,
  newId,
  PAUSED_BECAUSE,
  PRESENT_STATES,
  presentState,
  sampleLatency,
  startOf,
  successRate,
  Unavailable,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import type { GatewayDependencies, Routes } from '../dependencies.ts';
import { conflict, invalidRequest } from '../errors/api-error.ts';
import { disconnectSignal } from '../limits/turns.ts';
import { entityOf, propose } from '../resources/catalog-entities.ts';
import { entityRoutes } from '../resources/entity-routes.ts';
import { byFlag, byId, byText, byWord, catalogList } from '../resources/lists.ts';
import {
  boolean,
  closed,
  freeObject,
  HOURS,
  hoursText,
  integer,
  listOf,
  MAX_RESOURCE_BYTES,
  name,
  nullable,
  number,
  oneOf,
  operation,
  optional,
  parseInteger,
  recordFields,
  resourceFields,
  shownAs,
  string,
  time,
  uuid,
} from '../resources/schemas.ts';
import { DestinationTests, destinationTestResult, TrialTurns } from './connection-test.ts';
import {
  connectionResource,
  connectionRoutes,
  presentConnection,
  revokeTokens,
} from './destination-connections.ts';
import { mappingRoutes } from './destination-mappings.ts';
import { createEventReader, eventFields, previewRoutes } from './destination-previews.ts';
import { Configurator, maskSecrets } from './destination-settings.ts';
import {
  addressIn,
  alertsBody,
  alertsIn,
  alertsResource,
  confirmationOf,
  emailStatus,
  statusIn,
} from './notice-addresses.ts';

const type = string('The connector that speaks to it.');

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

const destinationBody = closed(
  {
    name,
    type,
    settings: optional(freeObject('By the schema of the connector.')),
    enabled: optional(boolean('Default true.')),
    max_concurrency: optional(concurrency),
    rate_limit_per_second: optional(rate),
    paused: optional(
      boolean(
        'While true deliveries wait, for as long as it takes. Default false. One that is not connected with its service stays paused.',
      ),
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

const trialBody = nullable(
  closed(eventFields, {
    title: 'DestinationTrialBody',
    description:
      'With an event, of types that have subscriptions: it is sent. Without one the connection is tested.',
  }),
);

const pausedBecause = nullable(
  Type.Object({
    reason: oneOf(
      PAUSED_BECAUSE,
      'It answered 410 Gone, it is not connected with an account at its service yet, or the service does not accept the tokens of the account any more. Connecting it ends the last two.',
    ),
    at: time,
  }),
);

const destinationResource = Type.Object(
  {
    ...resourceFields,
    type,
    settings: freeObject('Secrets are masked, but for those just generated in the answer to a creation.'),
    enabled: Type.Boolean(),
    max_concurrency: Type.Union([concurrency, Type.Null()]),
    rate_limit_per_second: Type.Union([rate, Type.Null()]),
    paused: Type.Boolean(),
    paused_because: pausedBecause,
    connection: connectionResource,
    environments: listOf(oneOf(ENVIRONMENTS)),
    alerts: nullable(alertsResource),
    alerts_email_status: emailStatus,
    ...recordFields,
  },
  { title: 'Destination' },
);

const STATES = PRESENT_STATES.join('|');

const statesText = Type.String({
  description: `Only those of these states of their health, separated by commas: ${PRESENT_STATES.join(', ')}.`,
  pattern: `^(${STATES})(,(${STATES}))*$`,
  examples: ['failing,retrying'],
});

const destinationLists = catalogList<Destination>()({
  filters: {
    type: byText('Only of this type.', ({ type }) => type),
    enabled: byFlag('Only enabled ones, or only disabled ones.', ({ enabled }) => enabled),
    paused: byFlag('Only paused ones, or only others.', ({ paused }) => paused === true),
    environment: byWord(
      ENVIRONMENTS,
      'Only those that take events of this environment.',
      ({ environments = ENVIRONMENTS }) => environments,
    ),
    created_by: byId('Only those that this account created.', ({ created_by }) => created_by),
  },
  own: { state: Type.Optional(statesText) },
});

/** `generated`: secrets that were generated with the destination, shown only in this response. */
function presentDestination(
  destination: Destination,
  state: CatalogView,
  { secrets = [], service }: Partial<Pick<ConnectorDescription, 'secrets' | 'service'>>,
  generated: JsonObject = {},
): Static<typeof destinationResource> {
  return shownAs(destinationResource, destination, {
    settings: { ...maskSecrets(destination.settings, secrets), ...generated },
    paused: destination.paused ?? false,
    connection: presentConnection(destination, service),
    environments: destination.environments ?? ENVIRONMENTS,
    alerts_email_status: statusIn(state, destination.workspace_id, destination.alerts?.email, destination),
  });
}

const path = '/workspaces/:workspaceId/destinations';

/** `/workspaces/:workspaceId/destinations`: configured destinations. Secrets are write-only. */
export const destinationRoutes: Routes = async (app, dependencies) => {
  const { catalog, clock, connectors } = dependencies;
  const eventIn = createEventReader(dependencies);
  const configurator = new Configurator(dependencies);
  const turns = new TrialTurns();
  const tests = new DestinationTests(dependencies, turns);
  app.addHook('preClose', (done) => {
    turns.close();
    done();
  });

  await app.register(
    entityRoutes(dependencies, {
      kind: 'destination',
      collection: 'destinations',
      noun: 'a destination',
      body: destinationBody,
      bodyLimit: MAX_RESOURCE_BYTES,
      resource: destinationResource,
      list: destinationLists,
      select: ({ workspace, query }) =>
        stateFilter(dependencies, workspace.id, (query as { readonly state?: string }).state),
      async create({ workspace }, body, id) {
        const { name, type, settings } = body;
        const description = connectorOf(type);
        await connectors.prepare(type);
        const isWarehouse = description.isWarehouse === true;
        if (isWarehouse && dependencies.isUpgradePending?.() === true) throw conflict('upgrade_pending');
        const configured = configurator.create(description, { id, name }, settings ?? {});
        const alerts = alertsIn(body.alerts, catalog.state, workspace.id, id);
        const fields = {
          name,
          type,
          settings: configured.settings,
          ...(isWarehouse && { warehouse: true as const }),
          ...switchesOf(body),
          ...(description.service !== undefined && waitingToBeConnected()),
          alerts,
          ...confirmationOf(dependencies, addressIn(workspace, alerts)),
        };
        return { fields, made: configured.generated };
      },
      async replace(request, body, stored) {
        const { name, type, settings } = body;
        if (type !== stored.type)
          throw invalidRequest({ path: '/type', message: `must stay "${stored.type}"` });
        const description = connectorOf(type);
        await connectors.prepare(type);
        const alerts = alertsIn(body.alerts, catalog.state, stored.workspace_id, stored.id);
        const address = addressIn(request.workspace, alerts);
        await propose(request, dependencies, {
          type: 'destination.updated',
          entity: stored.id,
          expected_version: stored.version,
          data: {
            name,
            settings: configurator.replace(description, stored, settings ?? {}),
            ...switchesOf(body),
            // A pause that has a reason keeps it until a member resumes the destination.
            paused_because: body.paused === true ? (stored.paused_because ?? null) : null,
            ...(description.service !== undefined && stillWaiting(stored)),
            alerts,
            ...confirmationOf(dependencies, address, stored.alerts?.email, stored),
          },
        });
      },
      present,
      deleted: (destination) => revokeTokens(dependencies, destination),
    }),
  );

  app.post(
    `${path}/:destinationId/test`,
    operation('destinations.test', 'tryDestination', 'Try whether a destination would take deliveries', {
      body: trialBody,
      response: { 200: destinationTestResult },
    }),
    async (request, reply) => {
      const destination = entityOf(request, dependencies, 'destination');
      const { body } = request;
      const disconnected = disconnectSignal(reply);
      if (body?.message_id == null && body?.event == null) return await tests.test(destination, disconnected);
      // An event of its own: now, and no repeat of an earlier one.
      const completed = { message_id: newId(), received_at: iso(clock()) };
      const event = await eventIn(request.workspace.id, body, disconnected, completed);
      return await tests.send(destination, event, disconnected);
    },
  );

  await app.register(previewRoutes, { dependencies, turns, eventIn });
  await app.register(mappingRoutes, { dependencies, turns });
  await app.register(connectionRoutes, { dependencies, resource: destinationResource, present });

  function present(destination: Destination, generated?: JsonObject) {
    const description = connectors.descriptions.get(destination.type) ?? {};
    return presentDestination(destination, catalog.state, description, generated);
  }

  function waitingToBeConnected() {
    return {
      paused: true,
      paused_because: { reason: 'not_connected' as const, at: iso(dependencies.clock()) },
    };
  }

  /** A destination that is not connected is resumed by connecting it alone. */
  function stillWaiting({ connection, paused_because }: Destination) {
    if (connection?.state === 'connected') return {};
    return { ...waitingToBeConnected(), ...(paused_because == null ? {} : { paused_because }) };
  }

  function switchesOf(body: Static<typeof destinationBody>) {
    return {
      enabled: body.enabled ?? true,
      paused: body.paused ?? false,
      environments: body.environments ?? ENVIRONMENTS,
      // Null: the limits of the installation apply.
      max_concurrency: body.max_concurrency ?? null,
      rate_limit_per_second: body.rate_limit_per_second ?? null,
    };
  }

  function connectorOf(type: string): ConnectorDescription {
    const description = connectors.descriptions.get(type);
    if (description !== undefined) return description;
    const known = [...connectors.descriptions.keys()].join(', ');
    throw invalidRequest({ path: '/type', message: `must be one of ${known}` });
  }
};

const notice = Type.Object(
  {
    state: oneOf(['well', 'bad']),
    because: nullable(
      oneOf(
        BAD_REASONS,
        'Why it is bad: its circuit is open, most attempts fail, more deliveries are deferred than made, deliveries wait too long, it answered 410 Gone, its service does not accept its tokens any more, or it refuses most requests for their rate.',
      ),
    ),
    since: nullable(time),
  },
  {
    description:
      'What notices (mails, and deliveries to other destinations) reported last, in their words. They are held back: a change has to last for minutes, and after two of them one an hour is reported. `state` is the present.',
  },
);

/** Rates are of the last minute, over all processes; null without data. */
const destinationHealth = Type.Object(
  {
    id: uuid,
    active: boolean('Whether a delivering process reported it in the last two minutes.'),
    warehouse: boolean('It is a warehouse, whose attempts are loads.'),
    at: nullable(time),
    state: oneOf(
      PRESENT_STATES,
      'What the last minute was, or the last five where it had no attempt. `failing`: its circuit is open, or at least 1 % of the attempts failed; `retrying`: nothing arrived, and deliveries wait for their next attempt, or most were refused for their rate; `behind`: deliveries wait for over a minute, or more are deferred than made; `no_traffic`: nothing was attempted, and nothing waits.',
    ),
    failed_share: nullable(
      number(
        'Which part of the attempts of that time failed, 0 to 1, without those refused for their rate; null without any.',
      ),
    ),
    retrying: nullable(
      integer('Deliveries that wait for their next attempt; null while their history cannot be read.'),
    ),
    paused_because: pausedBecause,
    notice,
    delivered_per_second: Type.Number(),
    failed_per_second: number(
      'Attempts that did not deliver, without those that were refused for their rate.',
    ),
    throttled_per_second: number('Attempts that it refused for their rate, such as with 429.'),
    pace_per_second: nullable(
      number('Requests per second that its refusals led to; null where it refused none for their rate.'),
    ),
    put_off_per_second: number('Deliveries that were deferred without an attempt.'),
    p50_ms: nullable(Type.Number()),
    p99_ms: nullable(Type.Number()),
    waiting: integer('Deliveries that wait for a request. Those in retry are in the list of deliveries.'),
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
        status: nullable(integer('HTTP status, where there was one.')),
      }),
      'Newest first, at most five.',
    ),
  },
  { title: 'DestinationHealth' },
);

const destinationHealthList = listOf(destinationHealth, 'Newest destination first.');

/** The longest time that is answered by the minute, hours: it is kept for no longer. */
const HOURS_BY_MINUTE = 6;

const healthBucket = Type.Object(
  {
    at: string('Start of the minute or hour.', 'date-time'),
    delivered: integer('Attempts that delivered.'),
    retried: integer('Attempts that failed and are repeated.'),
    dead: integer('Attempts that failed for good.'),
    put_off: integer(
      'Deliveries that were deferred without an attempt, and attempts refused for their rate.',
    ),
    success_rate: nullable(number('Which part of the attempts delivered, 0 to 1; null without any.')),
    p50_ms: nullable(Type.Number()),
    p99_ms: nullable(Type.Number()),
    waiting: integer('The most deliveries that one process had queued at a time.'),
    oldest_waiting_ms: number('The longest that a queued delivery had waited.'),
    circuit: oneOf(['closed', 'half-open', 'open'], 'The worst state of any process.'),
  },
  { title: 'HealthBucket' },
);

const healthHistory = Type.Object(
  {
    id: uuid,
    from: time,
    until: time,
    bucket: oneOf(['minute', 'hour'], `By the minute up to ${HOURS_BY_MINUTE} hours, else by the hour.`),
    buckets: listOf(
      healthBucket,
      'Oldest first; those in which nothing happened are left out. The current one grows every five seconds; those of a process that was killed are lost.',
    ),
  },
  { title: 'HealthHistory' },
);

function presentSample(sample: HealthSample): Static<typeof healthBucket> {
  return shownAs(
    healthBucket,
    { ...sample, ...sampleLatency(sample) },
    { at: iso(sample.at), retried: sample.retry, success_rate: successRate(sample) },
  );
}

interface KnownHealth {
  /** Undefined for a destination that no process reports: it has no deliveries, or no process delivers. */
  readonly health: DestinationHealth | undefined;
  /** Null while history cannot be read. */
  readonly retrying: number | null;
}

/** Groups of retrying deliveries that are read, the largest first: more than a workspace has but for very many failures. */
const MAX_GROUPS = 1_000;

/** Reads how deliveries to some destinations of a workspace go, or to all; 503 while the board does not answer. */
async function readHealth(
  { healthBoard, history }: Pick<GatewayDependencies, 'healthBoard' | 'history'>,
  workspaceId: string,
  ids?: readonly string[],
): Promise<(id: string) => KnownHealth> {
  const [reports, retrying] = await Promise.all([
    healthBoard.read(workspaceId, ids),
    retryingOf(history, workspaceId, ids),
  ]);
  const byDestination = Map.groupBy(reports, ({ destination_id }) => destination_id);
  return (id) => ({
    health: mergeHealth(byDestination.get(id) ?? []),
    retrying: retrying && (retrying.get(id) ?? 0),
  });
}

/** Null while history does not answer: the board's figures are shown without it. */
async function retryingOf(
  history: GatewayDependencies['history'],
  workspaceId: string,
  ids: readonly string[] = [],
): Promise<ReadonlyMap<string, number> | null> {
  const [id] = ids;
  const values = { status: 'retrying', ...(ids.length === 1 && id !== undefined && { destination_id: id }) };
  try {
    const { groups } = await history.groups({ kind: 'delivery', workspaceId, values, limit: MAX_GROUPS });
    const counts = new Map<string, number>();
    for (const { values, count } of groups) {
      const of = values.destination_id ?? '';
      counts.set(of, (counts.get(of) ?? 0) + count);
    }
    return counts;
  } catch (error) {
    if (error instanceof Unavailable) return null;
    throw error;
  }
}

/** The filter of lists by `state`; undefined where the query has none. */
async function stateFilter(
  dependencies: Pick<GatewayDependencies, 'healthBoard' | 'history'>,
  workspaceId: string,
  states: string | undefined,
): Promise<((destination: Destination) => boolean) | undefined> {
  if (states === undefined) return undefined;
  const wanted = new Set(states.split(','));
  const known = await readHealth(dependencies, workspaceId);
  return (destination) => {
    const { health, retrying } = known(destination.id);
    return wanted.has(presentState(destination, health, retrying ?? 0));
  };
}

function presentHealth(
  destination: Destination,
  { health, retrying }: KnownHealth,
): Static<typeof destinationHealth> {
  const { id, condition, paused_because = null } = destination;
  return shownAs(
    destinationHealth,
    { ...health },
    {
      id,
      active: health !== undefined,
      warehouse: destination.warehouse === true,
      at: timeOf(health?.at),
      state: presentState(destination, health, retrying ?? 0),
      failed_share: health === undefined ? null : failedShare(health),
      retrying,
      paused_because,
      notice: {
        state: condition?.state ?? 'well',
        because: condition?.because ?? null,
        since: condition?.since ?? null,
      },
      delivered_per_second: health?.delivered_per_second ?? 0,
      failed_per_second: health?.failed_per_second ?? 0,
      throttled_per_second: health?.throttled_per_second ?? 0,
      put_off_per_second: health?.put_off_per_second ?? 0,
      waiting: health?.waiting ?? 0,
      under_way: health?.under_way ?? 0,
      circuit_since: timeOf(health?.circuit_since),
      last_delivered_at: timeOf(health?.last_delivered_at),
      last_errors: (health?.last_errors ?? []).map(({ at, outcome, reason, status }) => ({
        at: iso(at),
        outcome,
        reason,
        status: status ?? null,
      })),
    },
  );
}

function timeOf(ms: number | null | undefined): string | null {
  return ms == null ? null : iso(ms);
}

/** How deliveries to destinations go: of all at once, of one, and of one over time. */
export const destinationHealthRoutes: Routes = async (app, dependencies) => {
  const { catalog, healthBoard, clock } = dependencies;

  app.get(
    `${path}/health`,
    operation('destinations.health', 'listDestinationHealth', 'Read how deliveries to all destinations go', {
      querystring: destinationLists.querystring,
      response: { 200: destinationHealthList },
    }),
    async (request, reply) => {
      const { id: workspaceId } = request.workspace;
      const isSelected = await stateFilter(dependencies, workspaceId, request.query.state);
      const listing = catalog.state.listing('destination', workspaceId);
      const page = destinationLists.read(request, reply, listing, isSelected);
      const ids = page.map(({ id }) => id);
      const known = await readHealth(dependencies, workspaceId, ids);
      return page.map((destination) => presentHealth(destination, known(destination.id)));
    },
  );

  app.get(
    `${path}/:destinationId/health`,
    operation('destinations.health', 'readDestinationHealth', 'Read how deliveries to a destination go', {
      response: { 200: destinationHealth },
    }),
    async (request) => {
      const destination = entityOf(request, dependencies, 'destination');
      const known = await readHealth(dependencies, request.workspace.id, [destination.id]);
      return presentHealth(destination, known(destination.id));
    },
  );

  app.get(
    `${path}/:destinationId/health/history`,
    operation(
      'destinations.health',
      'readDestinationHealthHistory',
      'Read how deliveries to a destination went over time',
      {
        querystring: closed({ hours: hoursText }),
        response: { 200: healthHistory },
      },
    ),
    async (request) => {
      const destination = entityOf(request, dependencies, 'destination');
      const hours = parseInteger(request.query.hours, HOURS);
      const bucket: HealthResolution = hours <= HOURS_BY_MINUTE ? 'minute' : 'hour';
      const until = clock();
      const from = startOf(until - hours * 3_600_000, bucket);
      const samples = await healthBoard.history({
        workspaceId: request.workspace.id,
        destinationId: destination.id,
        resolution: bucket,
        from,
        until,
      });
      return {
        id: destination.id,
        from: iso(from),
        until: iso(until),
        bucket,
        buckets: samples.map(presentSample),
      };
    },
  );
};
