import {
  ALERT_KINDS,
  type Alert,
  type AlertKind,
  type AlertWatch,
  type CatalogView,
  dryRunAlert,
  ENVIRONMENTS,
  EVENT_TYPES,
  hasName,
  iso,
  isTimeZone,
  type QuietHours,
  readPastSeries,
  WEEKDAYS,
  watchedDestination,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import type { Routes } from '../dependencies.ts';
import { type ErrorDetail, invalidRequest } from '../errors/api-error.ts';
import { update } from '../resources/catalog-entities.ts';
import { entityRoutes } from '../resources/entity-routes.ts';
import { byFlag, byId, byWord, catalogList } from '../resources/lists.ts';
import {
  allOptional,
  boolean,
  closed,
  email,
  integer,
  listOf,
  name,
  nullable,
  number,
  oneOf,
  operation,
  optional,
  patternFault,
  readEmail,
  recordFields,
  resourceFields,
  shownAs,
  string,
  time,
  uuid,
} from '../resources/schemas.ts';
import { addressIn, channelIn, confirmationOf, emailStatus, statusIn } from './notice-addresses.ts';

const MAX_WATCHED_MINUTES = 1_440;
const MAX_BACKLOG_MINUTES = 2_880;

const kind = oneOf(
  ALERT_KINDS,
  '`volume`: events of an hour, compared with that hour of the week before. `silence`: no event for so many minutes. `violations`: share of events that violate their contract. `delivery_rate`: share of deliveries that are made. `backlog`: age of the oldest undelivered event.',
);

const watchFields = {
  source_id: string('Events of this source. Default all.', 'uuid'),
  event_type: oneOf(EVENT_TYPES, 'Events of this type. Default all.'),
  event_name: Type.String({
    minLength: 1,
    maxLength: 200,
    description: 'Events of this name; only track events, pages and screens have one. Default all.',
  }),
  destination_id: string(
    'Deliveries to this destination. Default: to all that are enabled and not paused.',
    'uuid',
  ),
  direction: oneOf(['below', 'above'], 'Of a volume. Default `below`.'),
  tolerance: Type.Number({
    exclusiveMinimum: 0,
    maximum: 100,
    description:
      'Of a volume: deviation from the baseline, as a share of it, from which on the alert fires; `below` takes at most 0.99. Default 0.5.',
  }),
  weeks: Type.Integer({ minimum: 2, maximum: 4, description: 'Weeks of the baseline. Default 4.' }),
  minutes: Type.Integer({
    minimum: 1,
    maximum: MAX_BACKLOG_MINUTES,
    description: `Length of the silence or of the window, from 5 to ${MAX_WATCHED_MINUTES}, or age of the backlog, up to ${MAX_BACKLOG_MINUTES}. Default 30, of a backlog 60. More than 55 are counted in whole hours.`,
  }),
  share: Type.Number({
    minimum: 0,
    maximum: 0.9999,
    description:
      'Of violations: the alert fires above it, default 0.05. Of a delivery rate: below it, default 0.9.',
  }),
  minimum: Type.Integer({
    minimum: 1,
    maximum: 1_000_000_000,
    description: 'Fewer events, or deliveries, are not evaluated. Default 20.',
  }),
};

/** The fields that each kind has beside `kind`. */
const FIELDS_OF: Readonly<Record<AlertKind, readonly (keyof typeof watchFields)[]>> = {
  volume: ['source_id', 'event_type', 'event_name', 'direction', 'tolerance', 'weeks', 'minimum'],
  silence: ['source_id', 'event_type', 'event_name', 'minutes'],
  violations: ['source_id', 'event_type', 'event_name', 'minutes', 'share', 'minimum'],
  delivery_rate: ['destination_id', 'minutes', 'share', 'minimum'],
  backlog: ['destination_id', 'minutes'],
};

const watchBody = closed(
  {
    kind,
    ...allOptional(watchFields),
  },
  {
    description: `What is watched. The fields of each kind: ${ALERT_KINDS.map((each) => `\`${each}\`: ${FIELDS_OF[each].join(', ')}`).join('; ')}.`,
  },
);

const clockTime = (description: string) =>
  Type.String({ pattern: '^([01]\\d|2[0-3]):[0-5]\\d$', description, examples: ['22:00'] });

const quietPeriod = closed({
  days: Type.Array(oneOf(WEEKDAYS), {
    minItems: 1,
    maxItems: 7,
    uniqueItems: true,
    description: 'The days on which it begins.',
  }),
  from: clockTime('Inclusive.'),
  until: clockTime('Exclusive. Not later than `from`: on the next day.'),
});

const quietHours = Type.Array(quietPeriod, {
  maxItems: 14,
  description:
    'Times without notices. A change that comes up in them is reported at their end, if it still holds. Default none.',
});

const timeZone = Type.String({
  maxLength: 64,
  description: 'IANA name. The hours of the week and the quiet hours are those of its clocks. Default UTC.',
  examples: ['Europe/Berlin'],
});

const ruleFields = {
  environment: optional(oneOf(ENVIRONMENTS, 'Default `production`.')),
  watch: watchBody,
  time_zone: optional(timeZone),
  quiet_hours: optional(quietHours),
};

const EXAMPLE_RULE = {
  watch: { kind: 'volume', event_type: 'track', event_name: 'Order Placed', tolerance: 0.4 },
  time_zone: 'Europe/Berlin',
  quiet_hours: [{ days: ['sat', 'sun'], from: '22:00', until: '08:00' }],
};

const alertBody = closed(
  {
    name,
    ...ruleFields,
    enabled: optional(boolean('Default true.')),
    destination_id: optional(
      string(
        'A destination of the workspace, which notices are delivered to, as `track` events. Without it and `email`: the recipients of the workspace’s alerts.',
        'uuid',
      ),
    ),
    email: optional(email),
  },
  { title: 'AlertBody', examples: [{ name: 'Orders', ...EXAMPLE_RULE, email: 'ops@example.com' }] },
);

const MAX_DAYS = 28;
const DEFAULT_DAYS = 7;

const alertDryRunBody = closed(
  {
    ...ruleFields,
    days: optional(
      Type.Integer({
        minimum: 1,
        maximum: MAX_DAYS,
        description: `Days up to now that are tried. Default ${DEFAULT_DAYS}.`,
      }),
    ),
  },
  { title: 'AlertDryRunBody', examples: [{ ...EXAMPLE_RULE, days: 14 }] },
);

const state = oneOf(['ok', 'firing']);

const numbers = {
  value: number('Events, a share of 1, or minutes, depending on the kind.'),
  limit: number('What `value` was compared with.'),
  expected: nullable(number('The baseline of a volume.')),
};

const measured = Type.Object({ ...numbers, from: time, until: time });

const alertResource = Type.Object(
  {
    ...resourceFields,
    environment: oneOf(ENVIRONMENTS),
    watch: Type.Object(
      {
        kind,
        source_id: Type.Optional(nullable(uuid)),
        event_type: Type.Optional(nullable(oneOf(EVENT_TYPES))),
        event_name: Type.Optional(nullable(Type.String())),
        destination_id: Type.Optional(nullable(uuid)),
        direction: Type.Optional(watchFields.direction),
        tolerance: Type.Optional(Type.Number()),
        weeks: Type.Optional(Type.Integer()),
        minutes: Type.Optional(Type.Integer()),
        share: Type.Optional(Type.Number()),
        minimum: Type.Optional(Type.Integer()),
      },
      { description: 'With the fields of its kind.' },
    ),
    time_zone: Type.String(),
    quiet_hours: listOf(
      Type.Object({ days: listOf(oneOf(WEEKDAYS)), from: Type.String(), until: Type.String() }),
    ),
    enabled: Type.Boolean(),
    destination_id: nullable(uuid),
    email: nullable(Type.String()),
    email_status: emailStatus,
    state: oneOf(['ok', 'firing'], 'As it was reported last.'),
    state_since: nullable(time),
    measured: nullable(measured),
    ...recordFields,
  },
  { title: 'Alert' },
);

const alertDryRunResult = Type.Object(
  {
    since: time,
    until: time,
    evaluations: integer('One an hour.'),
    unknown: Type.Object(
      {
        little_history: Type.Integer(),
        few_events: Type.Integer(),
        never_counted: Type.Integer(),
      },
      {
        description:
          'Hours that were not evaluated: their events were counted for less than two weeks before; there were too few; there never were any.',
      },
    ),
    quiet: integer('Hours in which nothing would have been reported.'),
    changes: listOf(
      Type.Object({ at: time, state, ...numbers }),
      'When it would have fired and recovered, oldest first; the last 100.',
    ),
    state: oneOf(['ok', 'firing'], 'At the end.'),
  },
  { title: 'AlertDryRun' },
);

type RuleBody = Static<typeof alertDryRunBody>;
type RuleFields = Pick<Alert, 'environment' | 'watch' | 'time_zone' | 'quiet_hours'>;
type AlertFields = RuleFields & Pick<Alert, 'name' | 'enabled' | 'destination_id' | 'email'>;

/**
 * The rule of an alert by a request body. 400 for fields that its kind does not have, values out of their bounds, an
 * unknown time zone, and sources and destinations that the workspace does not have.
 */
function ruleOf(
  body: Omit<RuleBody, 'days'>,
  state: Pick<CatalogView, 'entity'>,
  workspaceId: string,
  stored?: Pick<Alert, 'watch'>,
): RuleFields {
  const { watch } = body;
  const faults: ErrorDetail[] = [...faultsOfFields(watch)];
  const { event_name: name } = watch;
  const isStored = stored !== undefined && 'event_name' in stored.watch && stored.watch.event_name === name;
  const pattern = name == null || isStored ? undefined : patternFault(name, 'leave it out for all names');
  if (pattern !== undefined) faults.push({ path: '/watch/event_name', message: pattern });
  const source = watch.source_id?.toLowerCase();
  if (source !== undefined && state.entity('source', workspaceId, source) === undefined)
    faults.push({ path: '/watch/source_id', message: 'is not a source of this workspace' });
  const destination = watch.destination_id?.toLowerCase();
  if (destination !== undefined && state.entity('destination', workspaceId, destination) === undefined)
    faults.push({ path: '/watch/destination_id', message: 'is not a destination of this workspace' });
  const time_zone = body.time_zone ?? 'UTC';
  if (!isTimeZone(time_zone)) faults.push({ path: '/time_zone', message: 'is not the name of a time zone' });
  if (faults.length > 0) throw invalidRequest(...faults);
  return {
    environment: body.environment ?? 'production',
    watch: watchOf(watch),
    time_zone,
    quiet_hours: quietHoursOf(body.quiet_hours),
  };
}

function quietHoursOf(periods: Static<typeof quietHours> | null | undefined): QuietHours | null {
  return periods == null || periods.length === 0 ? null : periods;
}

function* faultsOfFields(watch: Static<typeof watchBody>): Iterable<ErrorDetail> {
  const own: ReadonlySet<string> = new Set(FIELDS_OF[watch.kind]);
  for (const field of Object.keys(watchFields) as (keyof typeof watchFields)[])
    if (watch[field] != null && !own.has(field))
      yield { path: `/watch/${field}`, message: `is not a field of the kind ${watch.kind}` };
  const { minutes, direction, tolerance, event_type, event_name } = watch;
  const [least, most] = watch.kind === 'backlog' ? [1, MAX_BACKLOG_MINUTES] : [5, MAX_WATCHED_MINUTES];
  if (minutes != null && (minutes < least || minutes > most))
    yield { path: '/watch/minutes', message: `must be from ${least} to ${most}` };
  if (direction !== 'above' && tolerance != null && tolerance > 0.99)
    yield { path: '/watch/tolerance', message: 'must be at most 0.99, as a volume is never below 0' };
  if (event_name != null && event_type != null && !hasName(event_type))
    yield { path: '/watch/event_name', message: `${event_type} events have no name` };
}

function watchOf(watch: Static<typeof watchBody>): AlertWatch {
  const { kind, share } = watch;
  const events = {
    source_id: watch.source_id?.toLowerCase() ?? null,
    event_type: watch.event_type ?? null,
    event_name: watch.event_name ?? null,
  };
  const destination_id = watch.destination_id?.toLowerCase() ?? null;
  const minutes = watch.minutes ?? (kind === 'backlog' ? 60 : 30);
  const minimum = watch.minimum ?? 20;
  switch (kind) {
    case 'volume': {
      const direction = watch.direction ?? 'below';
      return {
        kind,
        ...events,
        direction,
        tolerance: watch.tolerance ?? 0.5,
        weeks: watch.weeks ?? 4,
        minimum,
      };
    }
    case 'silence':
      return { kind, ...events, minutes };
    case 'violations':
      return { kind, ...events, minutes, share: share ?? 0.05, minimum };
    case 'delivery_rate':
      return { kind, destination_id, minutes, share: share ?? 0.9, minimum };
    case 'backlog':
      return { kind, destination_id, minutes };
  }
}

/** The alert of a body. 400 as `ruleOf`, and for recipients that cannot get its notices. */
function alertOf(
  body: Static<typeof alertBody>,
  state: Pick<CatalogView, 'entity'>,
  workspaceId: string,
  stored?: Pick<Alert, 'watch'>,
): AlertFields {
  const rule = ruleOf(body, state, workspaceId, stored);
  const path = '/destination_id';
  if (body.destination_id != null && body.destination_id.toLowerCase() === watchedDestination(rule.watch))
    throw invalidRequest({ path, message: 'must be another destination than the watched one' });
  return {
    name: body.name,
    ...rule,
    enabled: body.enabled ?? true,
    destination_id: channelIn(state, workspaceId, body.destination_id, path),
    email: body.email == null ? null : readEmail(body.email, '/email'),
  };
}

function presentAlert(alert: Alert, state: CatalogView): Static<typeof alertResource> {
  const { condition } = alert;
  return shownAs(alertResource, alert, {
    quiet_hours: alert.quiet_hours ?? [],
    email_status: statusIn(state, alert.workspace_id, alert.email, alert),
    state: condition?.state ?? 'ok',
    state_since: condition?.since ?? null,
    measured: condition === undefined ? null : shownAs(measured, condition, {}),
  });
}

const DAY_MS = 24 * 60 * 60_000;
/** How far back a dry run reads: hours are kept for as long. */
const MAX_PAST_MS = 31 * DAY_MS;
const MAX_CHANGES = 100;

const alerts = catalogList<Alert>()({
  filters: {
    kind: byWord(ALERT_KINDS, 'Only of this kind.', ({ watch }) => watch.kind),
    environment: byWord(ENVIRONMENTS, 'Only of this environment.', ({ environment }) => environment),
    state: byWord(['ok', 'firing'], 'Only those in this state.', ({ condition }) => condition?.state ?? 'ok'),
    enabled: byFlag('Only those that are enabled, or are not.', ({ enabled }) => enabled),
    created_by: byId('Only those that this account created.', ({ created_by }) => created_by),
  },
});

/** `/workspaces/:workspaceId/alerts`: notices when the numbers of a workspace are not as they should be. */
export const alertRoutes: Routes = async (app, dependencies) => {
  const { catalog, counters, clock } = dependencies;

  await app.register(
    entityRoutes(dependencies, {
      kind: 'alert',
      collection: 'alerts',
      noun: 'an alert',
      body: alertBody,
      resource: alertResource,
      list: alerts,
      create({ workspace }, body) {
        const fields = alertOf(body, catalog.state, workspace.id);
        return { fields: { ...fields, ...confirmationOf(dependencies, addressIn(workspace, fields)) } };
      },
      async replace(request, body, stored) {
        const named = alertOf(body, catalog.state, request.workspace.id, stored);
        const address = addressIn(request.workspace, named);
        const data = { ...named, ...confirmationOf(dependencies, address, stored.email, stored) };
        await update(request, dependencies, 'alert', stored, data);
      },
      present: (alert) => presentAlert(alert, catalog.state),
    }),
  );

  app.post(
    '/workspaces/:workspaceId/alerts/dry-run',
    operation('alerts.dry-run', 'dryRunAlert', 'See when an alert would have fired', {
      body: alertDryRunBody,
      response: { 200: alertDryRunResult },
    }),
    async (request) => {
      const { days, ...body } = request.body;
      const rule = ruleOf(body, catalog.state, request.workspace.id);
      if (rule.watch.kind === 'backlog')
        throw invalidRequest({
          path: '/watch/kind',
          message: 'cannot be tried: how old a backlog was is not kept',
        });
      const now = clock();
      const range = { from: now - (days ?? DEFAULT_DAYS) * DAY_MS, to: now };
      const workspaceId = request.workspace.id;
      const isActive = (id: string) => catalog.state.entity('destination', workspaceId, id)?.enabled === true;
      const query = { workspaceId, ...rule, completeUntil: now, isActive };
      const past = await readPastSeries((each) => counters.funnel(each), query, now - MAX_PAST_MS);
      const { changes, ...run } = dryRunAlert(rule, past, range);
      return {
        since: iso(range.from),
        until: iso(range.to),
        ...run,
        changes: changes.slice(-MAX_CHANGES).map(({ at, ...change }) => ({ at: iso(at), ...change })),
      };
    },
  );
};
