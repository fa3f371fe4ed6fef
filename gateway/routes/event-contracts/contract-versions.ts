import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  type CatalogView,
  type Contract,
  contractVersionId,
  type History,
  type HistoryEntry,
} from '@tributary/core';
import type { GatewayDependencies } from '../../dependencies.ts';
import { notFound } from '../../errors/api-error.ts';
import { entityOf } from '../../resources/catalog-entities.ts';
import {
  linkNext,
  type Page,
  type PageRequest,
  pageRequest,
  withCursor,
} from '../../resources/pagination.ts';
import { errorAnswers, pathOf } from '../../resources/schemas.ts';
import { contractList, contractResource, presentContract, versionsQuery } from './contract-resource.ts';

const path = '/workspaces/:workspaceId/event-contracts/:contractId/versions';
const VERSION = /^[1-9]\d{0,8}$/;

/** The versions of a contract. */
export const versionRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, dependencies) => {
  const { catalog, history } = dependencies;

  app.get(
    path,
    {
      config: { operation: 'event-contracts.versions' },
      schema: {
        operationId: 'listContractVersions',
        summary: 'List the versions of a contract',
        params: pathOf('contractId'),
        querystring: versionsQuery,
        response: { 200: contractList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const contract = entityOf(request, dependencies, 'contract', request.params.contractId);
      const asked = pageRequest(request.query);
      const page = await withCursor(() => versionsOf(contract, asked, { history }));
      linkNext(request, reply, page.next);
      return reply.code(200).send(page.items.map(presentContract));
    },
  );

  app.get(
    `${path}/:version`,
    {
      config: { operation: 'event-contracts.versions' },
      schema: {
        operationId: 'readContractVersion',
        summary: 'Read a version of a contract',
        params: pathOf('contractId', 'version'),
        response: { 200: contractResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { contractId, version } = request.params;
      const contract = entityOf(request, dependencies, 'contract', contractId);
      const found = VERSION.test(version)
        ? await versionOf(contract, Number(version), { state: catalog.state, history })
        : undefined;
      if (found === undefined) throw notFound();
      return reply.code(200).send(presentContract(found));
    },
  );
};

/** The cursor of the second page when the newest version alone filled the first one. */
const BEHIND_NEWEST = 'past';

interface Sources {
  readonly state: CatalogView;
  readonly history: Pick<History, 'list' | 'get'>;
}

/**
 * A version of a contract. The catalog has the newest and those that may still be evaluated, history the past ones until
 * their retention ends. Undefined for a version that never existed or is past retention.
 */
async function versionOf(
  { id, workspace_id }: Contract,
  version: number,
  { state, history }: Sources,
): Promise<Contract | undefined> {
  const known = state.contractVersion(workspace_id, id, version);
  if (known !== undefined) return known;
  const entry = await history.get('contract', workspace_id, contractVersionId(id, version));
  return entry && contractIn(entry);
}

/**
 * The versions of a contract, newest first. The newest comes from the catalog; a version that was just replaced may take
 * a second to be listed. A page after the first may be one item short.
 */
async function versionsOf(
  contract: Contract,
  { limit, cursor }: PageRequest,
  { history }: Pick<Sources, 'history'>,
): Promise<Page<Contract>> {
  const isFirst = cursor === undefined;
  if (isFirst && limit === 1)
    return { items: [contract], next: contract.version > 1 ? BEHIND_NEWEST : undefined };
  const { entries, next } = await history.list({
    kind: 'contract',
    workspaceId: contract.workspace_id,
    facets: { contract_id: contract.id },
    limit: isFirst ? limit - 1 : limit,
    ...(isFirst || cursor === BEHIND_NEWEST ? {} : { cursor }),
  });
  const past = entries.map(contractIn).filter(({ version }) => version !== contract.version);
  return { items: isFirst ? [contract, ...past] : past, next };
}

function contractIn(entry: HistoryEntry): Contract {
  return entry.body as unknown as Contract;
}
