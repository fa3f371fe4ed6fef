import {
  type Catalog,
  type Clock,
  DEFAULT_REPLAY_RATE,
  defined,
  ENVIRONMENTS,
  EVENT_TYPES,
  type History,
  type HistoryEntry,
  iso,
  MAX_REPLAY_RATE,
  MAX_RUNNING_REPLAYS,
  newId,
  REPLAY_START_DEADLINE_MS,
  type Replay,
  type ReplayStep,
  replayProgress,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import { accountOf } from '../authentication/caller.ts';
import type { Routes } from '../dependencies.ts';
import { invalidRequest } from '../errors/api-error.ts';
import { quotaExceeded } from '../limits/change-limits.ts';
import { refuseOutputOverBudget } from '../limits/storage-budgets.ts';
import { oneAtATime } from '../limits/turns.ts';
import { entityNamed, entityOf, propose } from '../resources/catalog-entities.ts';
import { byId, byWord, catalogList } from '../resources/lists.ts';
import {
  boolean,
  closed,
  integer,
  listOf,
  noBody,
  nullable,
  number,
  oneOf,
  operation,
  optional,
  parseTime,
  patternFault,
  shownAs,
  string,
  time,
  timeText,
  uuid,
} from '../resources/schemas.ts';

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
      description: 'Names of track events, pages and screens. Empty: all events. Default empty.',
    }),
  ),
  environments: optional(
    Type.Array(oneOf(ENVIRONMENTS), { uniqueItems: true, description: 'Empty: all. Default empty.' }),
  ),
  contract_id: optional(string('The contract that accepted or rejected the events.', 'uuid')),
  source_id: optional(string('The source that they came from.', 'uuid')),
};

const replayBody = closed(
  {
    outcome: optional(
      oneOf(
        OUTCOMES,
        '`accepted` (default): accepted events go to their destinations once more. `rejected`: rejected events are evaluated once more, by the contracts as they are now; those that pass are accepted, counted and forwarded, once.',
      ),
    ),
    ...filters,
    rule_id: optional(
      string(
        'The one rule to replay for, also while it is disabled. Default: every enabled rule. Of accepted events alone.',
        'uuid',
      ),
    ),
    since: timeText('ISO 8601; events that were accepted, or rejected, then or later.'),
    until: optional(timeText('ISO 8601; and before then. Default: now.')),
    events_per_second: optional(rate),
    new_ids: optional(
      boolean(
        'Whether each delivery reaches its destination under a new id, so that an idempotent one takes it again. Default false: under the id of the first delivery of the event. Of accepted events alone.',
      ),
    ),
  },
  {
    title: 'ReplayBody',
    examples: [{ since: '2026-03-01T00:00:00.000Z', until: '2026-03-02T00:00:00.000Z' }],
  },
);

const replayResource = Type.Object(
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
    new_ids: boolean(
      'Whether destinations receive new ids; true on replays made before this could be chosen.',
    ),
    status: oneOf(
      ['pending', 'running', 'finished', 'cancelled', 'failed'],
      '`pending`: not begun, or so long ago that no more is known.',
    ),
    reason: nullable(string('Why it failed.')),
    progress: Type.Object({
      share: number('The share of the entries that is read, 0 to 1.'),
      looked_at: integer('Events that were read, those of other workspaces too.'),
      events: integer(
        'Those of them that went on: to at least one rule; of rejected ones those that their contract lets pass now, also where the same message id was accepted meanwhile, so that they are dropped as repeats.',
      ),
      still_rejected: integer('Rejected events that their contract still rejects.'),
      updated_at: nullable(time),
    }),
    created_by: uuid,
    created_at: time,
  },
  { title: 'Replay' },
);

/** `entry`: the newest step in history; undefined before the first. */
function presentReplay(replay: Replay, entry: HistoryEntry | undefined): Static<typeof replayResource> {
  const step = entry?.body as unknown as ReplayStep | undefined;
  return shownAs(replayResource, replay, {
    outcome: replay.outcome ?? 'accepted',
    event_types: replay.event_types ?? [],
    event_names: replay.event_names ?? [],
    environments: replay.environments ?? [],
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
  });
}

/** A cancelled replay forwards nothing, also before a step records it, unless it had ended. */
function statusOf(replay: Replay, step: ReplayStep | undefined) {
  const status = step?.status ?? 'pending';
  const goesOn = status === 'pending' || status === 'running';
  return goesOn && replay.status === 'cancelled' ? 'cancelled' : status;
}

const replays = catalogList<Replay>()({
  textOf: ({ id }) => id,
  textDescription: 'Part of the id.',
  fields: ['created_at', 'updated_at'],
  filters: {
    status: byWord(
      ['active', 'cancelled'],
      'Only those that were cancelled, or only others.',
      ({ status }) => status,
    ),
    rule_id: byId('Only those to this rule.', ({ rule_id }) => rule_id),
    created_by: byId('Only those that this account created.', ({ created_by }) => created_by),
  },
});

const path = '/workspaces/:workspaceId/replays';

/**
 * `/workspaces/:workspaceId/replays`: sends accepted events to their destinations again, marked as replayed, and
 * re-evaluates rejected events.
 */
export const replayRoutes: Routes = async (app, dependencies) => {
  const { catalog, history, clock } = dependencies;
  const running = new RunningReplays(dependencies);

  app.get(
    path,
    operation('replays.list', 'listReplays', 'List replays', {
      querystring: replays.querystring,
      response: { 200: listOf(replayResource) },
    }),
    async (request, reply) => {
      const found = replays.read(request, reply, catalog.state.listing('replay', request.workspace.id));
      const steps = await stepsOf(dependencies, request.workspace.id, found);
      return found.map((replay) => presentReplay(replay, steps.get(replay.id)));
    },
  );

  app.post(
    path,
    operation(
      'replays.create',
      'createReplay',
      'Send accepted events to destinations once more, or evaluate rejected ones once more',
      { body: replayBody, response: { 201: replayResource } },
    ),
    async (request, reply) => {
      const { workspace, caller, body } = request;
      refuseOutputOverBudget(dependencies, workspace.id);
      const id = newId();
      const rule_id = entityNamed(catalog.state, 'rule', workspace.id, body.rule_id)?.id ?? null;
      const narrowed = narrowedBy(workspace.id, body);
      const times = timesOf(body);
      await running.admit(workspace.id, () =>
        propose(request, dependencies, {
          type: 'replay.created',
          entity: id,
          expected_version: 0,
          data: {
            id,
            workspace_id: workspace.id,
            ...narrowed,
            rule_id,
            ...times,
            events_per_second: body.events_per_second ?? DEFAULT_REPLAY_RATE,
            new_ids: body.new_ids ?? false,
            status: 'active',
            created_by: accountOf(caller),
          },
        }),
      );
      return reply.code(201).send(await presented(entityOf(request, dependencies, 'replay', id)));
    },
  );

  app.get(
    `${path}/:replayId`,
    operation('replays.read', 'readReplay', 'Read a replay and how far it is', {
      response: { 200: replayResource },
    }),
    async (request) => {
      return await presented(entityOf(request, dependencies, 'replay'));
    },
  );

  app.post(
    `${path}/:replayId/cancel`,
    operation('replays.cancel', 'cancelReplay', 'Cancel a replay', {
      body: noBody,
      response: { 200: replayResource },
    }),
    async (request) => {
      const replay = entityOf(request, dependencies, 'replay');
      if (replay.status === 'active')
        await propose(request, dependencies, { type: 'replay.cancelled', entity: replay.id, data: {} });
      return await presented(entityOf(request, dependencies, 'replay'));
    },
  );

  async function presented(replay: Replay) {
    return presentReplay(replay, await history.get('replay', replay.workspace_id, replay.id));
  }

  function narrowedBy(workspaceId: string, body: Static<typeof replayBody>) {
    const { outcome, event_types, event_names, environments } = body;
    if (outcome === 'rejected') {
      // An event that is accepted now is forwarded by every rule, and for the first time.
      const path = body.rule_id != null ? '/rule_id' : body.new_ids === true ? '/new_ids' : undefined;
      if (path !== undefined) throw invalidRequest({ path, message: 'is only for accepted events' });
    }
    for (const [at, name] of event_names?.entries() ?? []) {
      const message = patternFault(name, 'name each event');
      if (message !== undefined) throw invalidRequest({ path: `/event_names/${at}`, message });
    }
    return defined({
      outcome: outcome ?? undefined,
      event_types: event_types ?? undefined,
      event_names: event_names ?? undefined,
      environments: environments ?? undefined,
      contract_id: entityNamed(catalog.state, 'contract', workspaceId, body.contract_id)?.id,
      source_id: entityNamed(catalog.state, 'source', workspaceId, body.source_id)?.id,
    });
  }

  function timesOf(body: Static<typeof replayBody>): { since: string; until: string } {
    const now = clock();
    const since = parseTime('/since', body.since) ?? now;
    const until = parseTime('/until', body.until ?? undefined) ?? now;
    if (until > now) throw invalidRequest({ path: '/until', message: 'must not be in the future' });
    if (since >= until) throw invalidRequest({ path: '/since', message: 'must be before `until`' });
    return { since: iso(since), until: iso(until) };
  }
};

/** Ended replays that are remembered, so that they are not queried again. */
const REMEMBERED = 10_000;

interface RunningDependencies extends StepSources {
  readonly catalog: Pick<Catalog, 'state'>;
}

/**
 * Bounds the running replays of a workspace, with one admission at a time. Several gateways may each admit one at the same
 * moment; the reads of all replays are bounded where they run.
 */
export class RunningReplays {
  readonly #dependencies: RunningDependencies;
  readonly #ended = new Set<string>();
  readonly #inTurn = oneAtATime();

  constructor(dependencies: RunningDependencies) {
    this.#dependencies = dependencies;
  }

  /** Creates a replay. 409 when the maximum is running. */
  admit(workspaceId: string, create: () => Promise<void>): Promise<void> {
    return this.#inTurn(workspaceId, () => this.#admit(workspaceId, create));
  }

  async #admit(workspaceId: string, create: () => Promise<void>): Promise<void> {
    const inQuestion = this.#dependencies.catalog.state
      .entities('replay', workspaceId)
      .filter(({ id, status }) => status !== 'cancelled' && !this.#ended.has(id));
    const steps = await stepsOf(this.#dependencies, workspaceId, inQuestion);
    const running = inQuestion.filter((replay) => this.#runs(replay, steps.get(replay.id)));
    if (running.length >= MAX_RUNNING_REPLAYS) throw quotaExceeded('running_replays', MAX_RUNNING_REPLAYS);
    await create();
  }

  #runs(replay: Replay, entry: HistoryEntry | undefined): boolean {
    const runs = mayGoOn(replay, entry, this.#dependencies.clock());
    if (!runs) this.#remember(replay.id);
    return runs;
  }

  #remember(id: string): void {
    if (this.#ended.size >= REMEMBERED) this.#ended.clear();
    this.#ended.add(id);
  }
}

const PAGE = 1_000;

interface StepSources {
  readonly history: Pick<History, 'list' | 'get'>;
  readonly clock: Clock;
}

/**
 * The newest step of each replay in history, by the replay's id; none for a replay that has not begun. One query lists a
 * page of them, as each query may go to every index. Lists may be a second behind, so the few replays that may still run
 * are read individually.
 */
async function stepsOf(
  { history, clock }: StepSources,
  workspaceId: string,
  replays: readonly Replay[],
): Promise<ReadonlyMap<string, HistoryEntry>> {
  const steps = await listed(history, workspaceId, replays);
  const open = replays.filter((replay) => mayGoOn(replay, steps.get(replay.id), clock()));
  await Promise.all(
    open.map(async ({ id }) => {
      const newest = await history.get('replay', workspaceId, id);
      if (newest !== undefined) steps.set(id, newest);
    }),
  );
  return steps;
}

/** Whether a replay runs or may begin, by its newest step. */
function mayGoOn({ created_at }: Replay, entry: HistoryEntry | undefined, now: number): boolean {
  const step = entry?.body as unknown as ReplayStep | undefined;
  if (step === undefined) return now - Date.parse(created_at) <= REPLAY_START_DEADLINE_MS;
  return step.status === 'running';
}

async function listed(
  history: Pick<History, 'list'>,
  workspaceId: string,
  replays: readonly Replay[],
): Promise<Map<string, HistoryEntry>> {
  const steps = new Map<string, HistoryEntry>();
  // History keeps a replay at the time of its creation.
  const times = replays.map(({ created_at }) => created_at).toSorted();
  const first = times.at(0);
  const last = times.at(-1);
  if (first === undefined || last === undefined) return steps;
  const query = {
    kind: 'replay',
    workspaceId,
    since: Date.parse(first),
    until: Date.parse(last) + 1,
    limit: PAGE,
  } as const;
  for (let cursor: string | undefined; ; ) {
    const { entries, next } = await history.list({ ...query, ...defined({ cursor }) });
    for (const entry of entries) steps.set(entry.id, entry);
    if (next === undefined) return steps;
    cursor = next;
  }
}
