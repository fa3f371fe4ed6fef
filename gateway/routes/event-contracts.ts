import {
  type CanonicalEvent,
  type Contract,
  type ContractVerdict,
  contractSubject,
  contractVersionId,
  ENFORCEMENT_MODES,
  EVENT_TYPES,
  eventName,
  type HistoryEntry,
  iso,
  type JsonObject,
  violationId,
  violationOf,
} from '@tributary/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { Routes } from '../dependencies.ts';
import { invalidRequest, notFound } from '../errors/api-error.ts';
import { evaluateContract } from '../ingestion/contract-check.ts';
import { readTrialEvent } from '../ingestion/event.ts';
import { disconnectSignal } from '../limits/turns.ts';
import {
  checkVersion,
  entityOf,
  inPath,
  isUnchanged,
  propose,
  removalOf,
  tagged,
} from '../resources/catalog-entities.ts';
import {
  byId,
  byText,
  byWord,
  catalogList,
  linkNext,
  type PageRequest,
  pageQuery,
  pageRequest,
  withCursor,
} from '../resources/lists.ts';
import {
  closed,
  freeObject,
  MAX_RESOURCE_BYTES,
  nullable,
  oneOf,
  operation,
  removedAs,
} from '../resources/schemas.ts';
import {
  changeQuery,
  dryRun,
  dryRunResult,
  infer,
  inferenceBody,
  inferenceResult,
  isDryRun,
  type RecentEventsContext,
} from './contract-dry-runs.ts';
import {
  contractBody,
  contractFields,
  contractList,
  contractResource,
  createContract,
  newContract,
  OUTCOMES,
  status,
  updateContract,
} from './contract-fields.ts';
import { violationList } from './contract-violations.ts';
import { RecentEvents } from './recent-events.ts';

const contractLists = catalogList<Contract>()({
  textOf: ({ name, event_name }) => `${name}\n${event_name}`,
  textDescription: 'Part of the name, or of the name of its events, in any case.',
  filters: {
    event_type: byWord(EVENT_TYPES, 'Only those of this type of events.', ({ event_type }) => event_type),
    event_name: byText('Only those of this name of events.', ({ event_name }) => event_name),
    enforcement_mode: byWord(
      ENFORCEMENT_MODES,
      'Only of this mode.',
      (contract) => contract.enforcement_mode,
    ),
    created_by: byId('Only those that this account created.', ({ created_by }) => created_by),
  },
  own: { status: Type.Optional(status) },
});

const path = '/workspaces/:workspaceId/event-contracts';

/** `/workspaces/:workspaceId/event-contracts`: contracts, dry runs and inference. */
export const contractRoutes: Routes = async (app, dependencies) => {
  const { catalog, contracts, clock } = dependencies;
  const recent = new RecentEvents(dependencies);

  app.get(
    path,
    operation('event-contracts.list', 'listContracts', 'List contracts', {
      querystring: contractLists.querystring,
      response: { 200: contractList },
    }),
    async (request, reply) => {
      const wanted = request.query.status ?? 'active';
      const found = catalog.state.listing('contract', request.workspace.id, wanted);
      return contractLists.read(request, reply, found);
    },
  );

  app.post(
    path,
    operation(
      'event-contracts.create',
      'createContract',
      'Create a contract, or see what it would do to recent events',
      {
        querystring: changeQuery,
        body: contractBody,
        response: { 200: dryRunResult, 201: contractResource },
      },
      { bodyLimit: MAX_RESOURCE_BYTES },
    ),
    async (request, reply) => {
      const fields = await contractFields(request.body, schemaCheckOf(request, reply));
      if (isDryRun(request.query)) {
        const at = iso(clock());
        const draft = { ...newContract(request, fields), version: 1, created_at: at, updated_at: at };
        return await dryRun(draft, request.query, contextOf(reply));
      }
      return reply.code(201).send(tagged(reply, await createContract(request, dependencies, fields)));
    },
  );

  app.get(
    `${path}/:contractId`,
    operation('event-contracts.read', 'readContract', 'Read a contract', {
      response: { 200: contractResource },
    }),
    async (request, reply) => {
      return tagged(reply, contractNamed(request));
    },
  );

  app.put(
    `${path}/:contractId`,
    operation(
      'event-contracts.update',
      'replaceContract',
      'Replace a contract, or see what that would do to recent events',
      {
        querystring: changeQuery,
        body: contractBody,
        response: { 200: Type.Union([dryRunResult, contractResource]) },
      },
      {
        bodyLimit: MAX_RESOURCE_BYTES,
        patched: contractNamed,
      },
    ),
    async (request, reply) => {
      const stored = contractNamed(request);
      checkVersion(request, stored);
      const fields = await contractFields(request.body, schemaCheckOf(request, reply), stored);
      if (isDryRun(request.query))
        return await dryRun({ ...stored, ...fields }, request.query, contextOf(reply));
      const wanted = { ...fields, status: 'active' } as const; // an archived contract refuses every change, also an empty one
      const contract = (await isUnchanged<Contract>(dependencies, stored, wanted, () =>
        contractNamed(request),
      ))
        ? contractNamed(request)
        : await updateContract(request, dependencies, stored, fields);
      return tagged(reply, contract);
    },
  );

  app.delete(
    `${path}/:contractId`,
    operation('event-contracts.archive', 'archiveContract', 'Archive a contract', {
      response: { 200: removedAs('archived') },
    }),
    async (request) => {
      const contract = contractNamed(request);
      if (contract.status !== 'archived')
        await propose(request, dependencies, { type: 'contract.archived', ...removalOf(request, contract) });
      return { id: contract.id, status: 'archived' } as const;
    },
  );

  app.post(
    `${path}/:contractId/validate`,
    operation('event-contracts.validate', 'tryContract', 'Try an event on a contract without sending it', {
      body: trialBody,
      response: { 200: trialResult },
    }),
    async (request, reply) => {
      const contract = contractNamed(request);
      const event = readContractEvent(request, contract, request.body, iso(clock()));
      const verdict = await evaluateContract(contract, event, dependencies, disconnectSignal(reply));
      return trialOf(contract, event, verdict);
    },
  );

  app.post(
    `${path}/infer`,
    operation('event-contracts.infer', 'inferContract', 'Infer a contract from recent events', {
      body: inferenceBody,
      response: { 200: inferenceResult },
    }),
    async (request, reply) => await infer(request.workspace.id, request.body, contextOf(reply)),
  );

  function contextOf(reply: FastifyReply): RecentEventsContext {
    return { state: catalog.state, recent, contracts, now: clock(), disconnected: disconnectSignal(reply) };
  }

  function schemaCheckOf(request: FastifyRequest, reply: FastifyReply) {
    return { organizationId: request.workspace.organization_id, disconnected: disconnectSignal(reply) };
  }

  function contractNamed(request: FastifyRequest) {
    return entityOf(request, dependencies, 'contract');
  }
};

const trialBody = Type.Unsafe<JsonObject>({
  ...freeObject('An event as producers send it. `type`, and the name, default to those of the contract.'),
  examples: [{ user_id: 'u-1', properties: { order_id: 'o-17', total: 59.9 } }],
});

const trialResult = Type.Object(
  {
    outcome: oneOf(OUTCOMES),
    violations: violationList,
    event: nullable(freeObject('The event as it would be accepted; null when it would be rejected.')),
  },
  { title: 'ContractTrial' },
);

/** The result of a trial: the violations as they would be recorded, and the event as it would be accepted. */
function trialOf(
  contract: Contract,
  event: CanonicalEvent,
  verdict: ContractVerdict,
): Static<typeof trialResult> {
  const { outcome, violations, subject } = verdict;
  const accepted = subject === undefined ? event : { ...event, [contractSubject(event.type)]: subject };
  return {
    outcome,
    violations: violations.map((found) => {
      const violation = violationOf(event, contract, eventName(event), found);
      return { id: violationId(violation), ...violation };
    }),
    event: outcome === 'rejected' ? null : (accepted as unknown as JsonObject),
  };
}

/** The event of a trial. 400 for an invalid event, and for one that the contract does not apply to. */
function readContractEvent(
  request: FastifyRequest,
  contract: Contract,
  body: JsonObject,
  receivedAt: string,
): CanonicalEvent {
  const item = withKindOf(contract, body);
  const { event_type: type } = contract;
  if (item.type !== type)
    throw invalidRequest({ path: '/type', message: `must be "${type}", which the contract is for` });
  const event = readTrialEvent(request, contract, item, receivedAt);
  checkName(contract, event);
  return event;
}

/** The body with type and name of the contract's events as defaults. */
function withKindOf(contract: Contract, body: JsonObject): JsonObject {
  const { event_type, event_name } = contract;
  const type = body.type ?? event_type;
  const nameField = type === 'track' ? 'event' : 'name';
  if (type !== event_type || event_name === '') return { ...body, type };
  return { ...body, type, [nameField]: body[nameField] ?? event_name };
}

function checkName({ event_name }: Contract, event: CanonicalEvent): void {
  if (event_name === '' || eventName(event) === event_name) return;
  const path = event.type === 'track' ? '/event' : '/name';
  throw invalidRequest({ path, message: `must be "${event_name}", which the contract is for` });
}

/** The cursor of the second page when the newest version alone filled the first one. */
const BEHIND_NEWEST = 'past';

const VERSION = /^[1-9]\d{0,8}$/;

export const versionRoutes: Routes = async (app, dependencies) => {
  const { catalog, history } = dependencies;

  app.get(
    `${path}/:contractId/versions`,
    operation('event-contracts.versions', 'listContractVersions', 'List the versions of a contract', {
      querystring: closed(pageQuery),
      response: { 200: contractList },
    }),
    async (request, reply) => {
      const contract = entityOf(request, dependencies, 'contract');
      const asked = pageRequest(request.query);
      const page = await withCursor(() => versionsOf(contract, asked));
      linkNext(request, reply, page.next);
      return page.items;
    },
  );

  app.get(
    `${path}/:contractId/versions/:version`,
    operation('event-contracts.versions', 'readContractVersion', 'Read a version of a contract', {
      response: { 200: contractResource },
    }),
    async (request) => {
      const version = inPath(request, 'version');
      const contract = entityOf(request, dependencies, 'contract');
      const found = VERSION.test(version) ? await versionOf(contract, Number(version)) : undefined;
      if (found === undefined) throw notFound();
      return found;
    },
  );

  /**
   * A version of a contract. The catalog has the newest and those that may still be evaluated, history the past ones until
   * their retention ends. Undefined for a version that never existed or is past retention.
   */
  async function versionOf({ id, workspace_id }: Contract, version: number): Promise<Contract | undefined> {
    const known = catalog.state.contractVersion(workspace_id, id, version);
    if (known !== undefined) return known;
    const entry = await history.get('contract', workspace_id, contractVersionId(id, version));
    return entry && contractIn(entry);
  }

  /**
   * The versions of a contract, newest first. The newest comes from the catalog; a version that was just replaced may take
   * a second to be listed. A page after the first may be one item short.
   */
  async function versionsOf(contract: Contract, { limit, cursor }: PageRequest) {
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
};

function contractIn(entry: HistoryEntry): Contract {
  return entry.body as unknown as Contract;
}
