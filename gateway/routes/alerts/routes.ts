import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  ALERT_KINDS,
  type Alert,
  dryRunAlert,
  ENVIRONMENTS,
  iso,
  newId,
  readPastSeries,
} from '@tributary/core';
import { accountOf } from '../../authentication/caller.ts';
import type { GatewayDependencies } from '../../dependencies.ts';
import { conflict, invalidRequest } from '../../errors/api-error.ts';
import { addressIn, confirmationOf } from '../../resources/alerts.ts';
import {
  checkVersion,
  deleteEntity,
  entityOf,
  isAlready,
  propose,
  tagVersion,
} from '../../resources/catalog-entities.ts';
import { byFlag, byId, byWord, catalogList } from '../../resources/catalog-list.ts';
import { errorAnswers, pathOf, removedAs } from '../../resources/schemas.ts';
import {
  alertBody,
  alertDryRunBody,
  alertDryRunResult,
  alertList,
  alertOf,
  alertResource,
  DEFAULT_DAYS,
  presentAlert,
  ruleOf,
} from './alert-resource.ts';

const path = '/workspaces/:workspaceId/alerts';

const DAY_MS = 24 * 60 * 60_000;
/** How far back a dry run reads: hours are kept for as long. */
const MAX_PAST_MS = 31 * DAY_MS;
const MAX_CHANGES = 100;

const alerts = catalogList<Alert>()({
  textOf: ({ name }) => name,
  fields: ['name', 'created_at', 'updated_at'],
  filters: {
    kind: byWord(ALERT_KINDS, 'Only of this kind.', ({ watch }) => watch.kind),
    environment: byWord(ENVIRONMENTS, 'Only of this environment.', ({ environment }) => environment),
    state: byWord(['ok', 'firing'], 'Only those in this state.', ({ condition }) => condition?.state ?? 'ok'),
    enabled: byFlag('Only those that are enabled, or are not.', ({ enabled }) => enabled),
    created_by: byId('Only those that this account created.', ({ created_by }) => created_by),
  },
});

/** `/workspaces/:workspaceId/alerts`: notices when the numbers of a workspace are not as they should be. */
export const alertRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, dependencies) => {
  const { catalog, funnel, clock } = dependencies;

  app.get(
    path,
    {
      config: { operation: 'alerts.list' },
      schema: {
        operationId: 'listAlerts',
        summary: 'List alerts',
        params: pathOf(),
        querystring: alerts.querystring,
        response: { 200: alertList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const found = alerts.read(request, reply, catalog.state.listing('alert', request.workspace.id));
      return reply.code(200).send(found.map((alert) => presentAlert(alert, catalog.state)));
    },
  );

  app.post(
    path,
    {
      config: { operation: 'alerts.create' },
      schema: {
        operationId: 'createAlert',
        summary: 'Create an alert',
        params: pathOf(),
        body: alertBody,
        response: { 201: alertResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      if (dependencies.isUpgradePending?.() === true) throw conflict('upgrade_pending');
      const { workspace, caller } = request;
      const fields = alertOf(request.body, catalog.state, workspace.id);
      const id = newId();
      await propose(request, dependencies, {
        type: 'alert.created',
        entity: id,
        expected_version: 0,
        data: {
          id,
          workspace_id: workspace.id,
          ...fields,
          ...confirmationOf(dependencies, addressIn(workspace, fields)),
          created_by: accountOf(caller),
        },
      });
      const alert = entityOf(request, dependencies, 'alert', id);
      tagVersion(reply, alert);
      return reply.code(201).send(presentAlert(alert, catalog.state));
    },
  );

  app.get(
    `${path}/:alertId`,
    {
      config: { operation: 'alerts.read' },
      schema: {
        operationId: 'readAlert',
        summary: 'Read an alert',
        params: pathOf('alertId'),
        response: { 200: alertResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const alert = entityOf(request, dependencies, 'alert', request.params.alertId);
      tagVersion(reply, alert);
      return reply.code(200).send(presentAlert(alert, catalog.state));
    },
  );

  app.put(
    `${path}/:alertId`,
    {
      config: {
        operation: 'alerts.update',
        patched: (request) => {
          const { alertId } = request.params as { alertId: string };
          return presentAlert(entityOf(request, dependencies, 'alert', alertId), catalog.state);
        },
      },
      schema: {
        operationId: 'replaceAlert',
        summary: 'Replace an alert',
        params: pathOf('alertId'),
        body: alertBody,
        response: { 200: alertResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const stored = entityOf(request, dependencies, 'alert', request.params.alertId);
      checkVersion(request, stored);
      const named = alertOf(request.body, catalog.state, request.workspace.id, stored);
      const address = addressIn(request.workspace, named);
      const fields = { ...named, ...confirmationOf(dependencies, address, stored.email, stored) };
      if (!(await isAlready(request, dependencies, 'alert', stored, fields)))
        await propose(request, dependencies, {
          type: 'alert.updated',
          entity: stored.id,
          expected_version: stored.version,
          data: fields,
        });
      const alert = entityOf(request, dependencies, 'alert', stored.id);
      tagVersion(reply, alert);
      return reply.code(200).send(presentAlert(alert, catalog.state));
    },
  );

  app.post(
    `${path}/dry-run`,
    {
      config: { operation: 'alerts.dry-run' },
      schema: {
        operationId: 'dryRunAlert',
        summary: 'See when an alert would have fired',
        params: pathOf(),
        body: alertDryRunBody,
        response: { 200: alertDryRunResult, ...errorAnswers },
      },
    },
    async (request, reply) => {
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
      const past = await readPastSeries((each) => funnel.read(each), query, now - MAX_PAST_MS);
      const { changes, ...run } = dryRunAlert(rule, past, range);
      return reply.code(200).send({
        since: iso(range.from),
        until: iso(range.to),
        ...run,
        changes: changes.slice(-MAX_CHANGES).map(({ at, ...change }) => ({ at: iso(at), ...change })),
      });
    },
  );

  app.delete(
    `${path}/:alertId`,
    {
      config: { operation: 'alerts.delete' },
      schema: {
        operationId: 'deleteAlert',
        summary: 'Delete an alert',
        params: pathOf('alertId'),
        response: { 200: removedAs('deleted'), ...errorAnswers },
      },
    },
    async (request) => deleteEntity(request, dependencies, 'alert', request.params.alertId),
  );
};
