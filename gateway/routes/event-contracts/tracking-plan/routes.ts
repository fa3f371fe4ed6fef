import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  assemblePlan,
  hasLabel,
  type JsonObject,
  type PlanForm,
  type TrackingPlan,
  trackingPlanOf,
  writeContract,
} from '@tributary/core';
import type { GatewayDependencies } from '../../../dependencies.ts';
import { invalidRequest } from '../../../errors/api-error.ts';
import { RecentEvents } from '../../../event-search/recent-events.ts';
import { disconnectSignal } from '../../../limits/fair-semaphore.ts';
import { TENANT_TURNS } from '../../../limits/tenant-turns.ts';
import { MAX_BODY_BYTES, TEXT_TYPE } from '../../../request-body/request-body.ts';
import { checkVersion, tagVersion } from '../../../resources/catalog-entities.ts';
import { errorAnswers, pathOf } from '../../../resources/schemas.ts';
import { comparePlan } from './compare-plan.ts';
import { activeContracts, applyImport, checkImport, planVersion } from './import-plan.ts';
import {
  comparison,
  comparisonQuery,
  importQuery,
  importResult,
  planBody,
  planDocument,
  planQuery,
  planText,
  presentImport,
} from './plan-resource.ts';

const path = '/workspaces/:workspaceId/tracking-plan';

/** A table of so many bytes takes as long to read as the largest JSON. */
const MAX_CSV_BYTES = 1024 * 1024;
const CATCH_UP_MS = 5_000;

/** `/workspaces/:workspaceId/tracking-plan`: the active contracts as one document, and compared with what came. */
export const trackingPlanRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (
  app,
  dependencies,
) => {
  const { catalog, counters, history, clock } = dependencies;
  const recent = new RecentEvents(dependencies);
  app.addContentTypeParser(TEXT_TYPE, app.parseBody);

  app.get(
    path,
    {
      config: { operation: 'tracking-plan.read' },
      schema: {
        operationId: 'exportTrackingPlan',
        summary: 'Export the active contracts as one document',
        params: pathOf(),
        querystring: planQuery,
        response: {
          200: {
            description: 'The plan; `format` decides whether it is JSON or CSV.',
            content: {
              'application/json': { schema: planDocument },
              [TEXT_TYPE]: { schema: planText },
            },
          },
          ...errorAnswers,
        },
      },
    },
    async (request, reply) => {
      const { format = 'tributary', label } = request.query;
      const { id, name, organization_id } = request.workspace;
      const version = planVersion(catalog.state, id);
      const contracts = activeContracts(catalog.state, id).filter(
        (contract) => label === undefined || hasLabel(contract, label),
      );
      const plan = await TENANT_TURNS.runSteps(
        organization_id,
        written(format, trackingPlanOf(name, version, contracts)),
      );
      tagVersion(reply, { version });
      if (typeof plan === 'string')
        return reply
          .code(200)
          .type(`${TEXT_TYPE}; charset=utf-8`)
          .send(plan as never);
      return reply
        .code(200)
        .type('application/json; charset=utf-8')
        .send(plan as never);
    },
  );

  app.put(
    path,
    {
      config: { operation: 'tracking-plan.import' },
      bodyLimit: MAX_BODY_BYTES,
      schema: {
        operationId: 'importTrackingPlan',
        summary: 'Create and replace contracts from one document, or see what that would do',
        params: pathOf(),
        querystring: importQuery,
        body: { content: { 'application/json': { schema: planBody }, [TEXT_TYPE]: { schema: planText } } },
        response: { 200: importResult, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { dry_run, missing = 'keep', label } = request.query;
      const document = request.body as JsonObject | string | null | undefined;
      if (document === undefined || document === null)
        throw invalidRequest({ path: '', message: 'must be a plan' });
      if (typeof document === 'string' && request.bodyBytes > MAX_CSV_BYTES)
        throw invalidRequest({ path: '', message: `must be at most ${MAX_CSV_BYTES / 1024} KiB of CSV` });
      const { id } = request.workspace;
      const options = { missing, ...(label === undefined ? {} : { label }) };
      const isDry = dry_run === 'true';
      // A newer version by another process must not be taken for unchanged.
      await catalog.catchUp(CATCH_UP_MS);
      checkVersion(request, { version: planVersion(catalog.state, id) });
      const { changes, notes } = await checkImport(
        request,
        document,
        options,
        dependencies,
        disconnectSignal(reply),
      );
      const done = isDry
        ? changes.map((change) => ('stored' in change ? { change, contract: change.stored } : { change }))
        : await applyImport(request, dependencies, changes);
      const result = presentImport(isDry, done, { notes, version: planVersion(catalog.state, id) });
      tagVersion(reply, result);
      return reply.code(200).send(result);
    },
  );

  app.get(
    `${path}/comparison`,
    {
      config: { operation: 'tracking-plan.compare' },
      schema: {
        operationId: 'compareTrackingPlan',
        summary: 'Compare the contracts with what came',
        params: pathOf(),
        querystring: comparisonQuery,
        response: { 200: comparison, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const context = {
        state: catalog.state,
        recent,
        counters,
        history,
        now: clock(),
        disconnected: disconnectSignal(reply),
      };
      return reply.code(200).send(await comparePlan(request.workspace.id, request.query, context));
    },
  );
};

/** A plan in a form, a contract a step. */
function* written(form: PlanForm, plan: TrackingPlan): Generator<undefined, JsonObject | string> {
  const items: (JsonObject | string)[] = [];
  for (const contract of plan.contracts) {
    items.push(writeContract(form, contract));
    yield;
  }
  return assemblePlan(form, plan, items);
}
