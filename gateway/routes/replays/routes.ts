import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { DEFAULT_REPLAY_RATE, iso, newId, type Replay } from '@tributary/core';
import type { Static } from 'typebox';
import { accountOf } from '../../authentication/caller.ts';
import type { GatewayDependencies } from '../../dependencies.ts';
import { invalidRequest } from '../../errors/api-error.ts';
import { refuseOutputOverBudget } from '../../limits/storage-budgets.ts';
import { entityOf, propose } from '../../resources/catalog-entities.ts';
import { byId, byWord, catalogList } from '../../resources/catalog-list.ts';
import { errorAnswers, noBody, pathOf } from '../../resources/schemas.ts';
import { parseTime, patternFault } from '../../resources/values.ts';
import { presentReplay, replayBody, replayList, replayResource } from './replay-resource.ts';
import { RunningReplays, stepsOf } from './running-replays.ts';

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
export const replayRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, dependencies) => {
  const { catalog, history, clock } = dependencies;
  const running = new RunningReplays(dependencies);

  app.get(
    path,
    {
      config: { operation: 'replays.list' },
      schema: {
        operationId: 'listReplays',
        summary: 'List replays',
        params: pathOf(),
        querystring: replays.querystring,
        response: { 200: replayList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const found = replays.read(request, reply, catalog.state.listing('replay', request.workspace.id));
      const steps = await stepsOf(dependencies, request.workspace.id, found);
      return reply.code(200).send(found.map((replay) => presentReplay(replay, steps.get(replay.id))));
    },
  );

  app.post(
    path,
    {
      config: { operation: 'replays.create' },
      schema: {
        operationId: 'createReplay',
        summary: 'Send accepted events to destinations once more, or evaluate rejected ones once more',
        params: pathOf(),
        body: replayBody,
        response: { 201: replayResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { workspace, caller, body } = request;
      refuseOutputOverBudget(dependencies, workspace.id);
      const id = newId();
      const rule_id = ruleNamed(workspace.id, body.rule_id);
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
    {
      config: { operation: 'replays.read' },
      schema: {
        operationId: 'readReplay',
        summary: 'Read a replay and how far it is',
        params: pathOf('replayId'),
        response: { 200: replayResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const replay = entityOf(request, dependencies, 'replay', request.params.replayId);
      return reply.code(200).send(await presented(replay));
    },
  );

  app.post(
    `${path}/:replayId/cancel`,
    {
      config: { operation: 'replays.cancel' },
      schema: {
        operationId: 'cancelReplay',
        summary: 'Cancel a replay',
        params: pathOf('replayId'),
        body: noBody,
        response: { 200: replayResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { replayId } = request.params;
      const replay = entityOf(request, dependencies, 'replay', replayId);
      if (replay.status === 'active')
        await propose(request, dependencies, { type: 'replay.cancelled', entity: replay.id, data: {} });
      return reply.code(200).send(await presented(entityOf(request, dependencies, 'replay', replayId)));
    },
  );

  async function presented(replay: Replay) {
    return presentReplay(replay, await history.get('replay', replay.workspace_id, replay.id));
  }

  function ruleNamed(workspaceId: string, id: string | null | undefined): string | null {
    if (id == null) return null;
    const rule = catalog.state.entity('rule', workspaceId, id.toLowerCase());
    if (rule === undefined)
      throw invalidRequest({ path: '/rule_id', message: 'is not a rule of this workspace' });
    return rule.id;
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
    const contract_id = idNamed('contract', workspaceId, body.contract_id);
    const source_id = idNamed('source', workspaceId, body.source_id);
    return {
      ...(outcome == null ? {} : { outcome }),
      ...(event_types == null ? {} : { event_types }),
      ...(event_names == null ? {} : { event_names }),
      ...(environments == null ? {} : { environments }),
      ...(contract_id === undefined ? {} : { contract_id }),
      ...(source_id === undefined ? {} : { source_id }),
    };
  }

  function idNamed(kind: 'contract' | 'source', workspaceId: string, id: string | null | undefined) {
    if (id == null) return undefined;
    const found = catalog.state.entity(kind, workspaceId, id.toLowerCase());
    if (found === undefined)
      throw invalidRequest({ path: `/${kind}_id`, message: `is not a ${kind} of this workspace` });
    return found.id;
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
