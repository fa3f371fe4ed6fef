import type { Catalog, EventLog, Fact, FactData, FactType, Logger } from '@tributary/core';

/** Access of the suite, and of the processes it starts, to one adapter on one log. */
export interface CatalogHarness {
  readonly name: string;
  /** URL of the module that exports this object as `harness`, for other processes. */
  readonly module: string;
  /** Creates an empty log. */
  create(): Promise<CatalogStore>;
  /** Opens the log, with its topics; several may be open at once, in any process. */
  openLog(settings: string): Promise<EventLog>;
  /** `staleAfterMs` as in the port: the maximum age of the last successful fetch. */
  open(log: EventLog, options: CatalogOptions): Promise<Catalog>;
}

export interface CatalogOptions {
  readonly logger: Logger;
  readonly staleAfterMs: number;
  readonly proposeTimeoutMs: number;
}

export interface CatalogStore {
  readonly settings: string;
  dispose(): Promise<void>;
}

export const WORKSPACE_ID = 'w1';
const AT = '2026-01-01T00:00:00.000Z';
const stamp = { v: 1, by: 'a1', from: { address: '127.0.0.1', request_id: 'r' }, at: AT } as const;

export function workspaceFact(id = WORKSPACE_ID): Fact {
  const workspace = { id, name: id, organization_id: `o-${id}`, region: 'eu', status: 'active' } as const;
  const organization = { id: `o-${id}`, name: id, regions: ['eu'], notification_email: null };
  const owner = { account_id: 'a1', organization_id: organization.id, role: 'owner' } as const;
  return { ...stamp, type: 'workspace.created', entity: id, data: { workspace, organization, owner } };
}

export function contractFact(id: string, eventName: string): Fact {
  const data = {
    id,
    workspace_id: WORKSPACE_ID,
    name: id,
    event_type: 'track',
    event_name: eventName,
    description: null,
    schema_definition: {},
    enforcement_mode: 'warn',
    undeclared_fields: 'allow',
    status: 'active',
    created_by: 'a1',
  } as const;
  return { ...stamp, type: 'contract.created', entity: id, expected_version: 0, data };
}

export function renameFact(id: string, name: string, version: number): Fact {
  return { ...stamp, type: 'contract.updated', entity: id, expected_version: version, data: { name } };
}

export function destinationFact(id: string): Fact {
  const settings = { url: 'https://example.com' };
  const data = { id, workspace_id: WORKSPACE_ID, name: id, type: 'webhook', settings, enabled: true };
  return factOf('destination.created', id, { ...data, created_by: 'a1' });
}

export function keyFact(id: string, hash: string): Fact {
  const data = {
    id,
    workspace_id: WORKSPACE_ID,
    name: id,
    hash,
    key_prefix: 'trb_api_abc',
    created_by: 'a1',
  };
  return factOf('api_key.created', id, { ...data, status: 'active', role: 'editor' });
}

export function memberFact(id: string, email: string): Fact {
  const data = { id, workspace_id: WORKSPACE_ID, email, role: 'viewer', created_by: 'a1' } as const;
  return factOf('workspace_member.added', id, data);
}

/** A fact that applies at any version. */
export function factOf<T extends FactType>(type: T, entity: string, data: FactData[T]): Fact {
  return { ...stamp, type, entity, data } as Fact;
}
