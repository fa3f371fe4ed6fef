import type { OrganizationRole, WorkspaceRole } from '../../access/roles.ts';
import type { AlertState } from '../../alerts/alert.ts';
import type { DestinationState } from '../../delivery/destination-health.ts';
import type { Fact, FactData, FactType, Verdict } from '../facts.ts';
import { applyFact } from './fold.ts';
import { CatalogState } from './state.ts';

/** Facts with every field filled. */
export const AT = '2026-01-01T00:00:00.000Z';
export const WORKSPACE = 'w1';
export const ORGANIZATION = 'o1';
export const OWNER = 'a1';

export function fact<T extends FactType>(type: T, entity: string, data: FactData[T]): Fact & { type: T } {
  const from = { address: '127.0.0.1', request_id: 'r' };
  return { v: 1, type, entity, data, by: OWNER, from, at: AT } as Fact & { type: T };
}

export function workspace(id = WORKSPACE, organization = ORGANIZATION): Fact {
  return fact('workspace.created', id, {
    workspace: { id, name: id, organization_id: organization, region: 'eu', status: 'active' },
    organization: { id: organization, name: organization, regions: ['eu'], notification_email: null },
    owner: { account_id: OWNER, organization_id: organization, role: 'owner' },
  });
}

export function organization(id: string, owner = OWNER): Fact {
  return fact('organization.created', id, {
    organization: { id, name: id, regions: ['eu'], notification_email: null },
    owner: { account_id: owner, organization_id: id, role: 'owner' },
  });
}

export function account(id: string, email: string | null): Fact {
  return fact('account.created', id, { id, issuer: 'i', subject: id, email });
}

export function organizationMember(
  id: string,
  email: string,
  role: OrganizationRole = 'member',
  organizationId = ORGANIZATION,
): Fact {
  const fields = { id, organization_id: organizationId, email, role, created_by: OWNER };
  return fact('organization_member.added', id, fields);
}

export function workspaceMember(
  id: string,
  email: string,
  role: WorkspaceRole = 'viewer',
  workspaceId = WORKSPACE,
): Fact {
  const fields = { id, workspace_id: workspaceId, email, role, created_by: OWNER };
  return fact('workspace_member.added', id, fields);
}

export function clientKey(id: string, hash: string, organizationId = ORGANIZATION): Fact {
  return fact('client_key.created', id, {
    id,
    organization_id: organizationId,
    name: id,
    hash,
    key_prefix: 'trb_client_abc',
    scopes: ['profile.read'],
    status: 'active',
    created_by: OWNER,
  });
}

const owned = (id: string, workspaceId: string) => ({
  id,
  workspace_id: workspaceId,
  name: id,
  created_by: OWNER,
});

export function apiKey(id: string, hash: string, workspaceId = WORKSPACE): Fact {
  const fields = { hash, key_prefix: 'trb_api_abc', status: 'active', role: 'editor' } as const;
  return fact('api_key.created', id, { ...owned(id, workspaceId), ...fields });
}

export function writeKey(
  id: string,
  hash: string,
  workspaceId = WORKSPACE,
  sourceId: string | null = null,
): Fact {
  return fact('write_key.created', id, {
    ...owned(id, workspaceId),
    hash,
    key_prefix: 'trb_wk_prod_abc',
    status: 'active',
    environment: 'production',
    pubsub_topic: 'events.production',
    source_id: sourceId,
  });
}

export function source(id: string, workspaceId = WORKSPACE): Fact {
  const fields = { type: 'web', description: null, status: 'active' } as const;
  return fact('source.created', id, { ...owned(id, workspaceId), ...fields });
}

export function contract(id: string, name = 'order', workspaceId = WORKSPACE): Fact {
  return fact('contract.created', id, {
    ...owned(id, workspaceId),
    event_type: 'track',
    event_name: name,
    description: null,
    schema_definition: {},
    enforcement_mode: 'warn',
    undeclared_fields: 'allow',
    status: 'active',
  });
}

export function transformation(
  id: string,
  status: 'draft' | 'active' = 'active',
  workspaceId = WORKSPACE,
): Fact {
  return fact('transformation.created', id, {
    ...owned(id, workspaceId),
    description: null,
    source_code: 'function transform(event) { return event; }',
    test_input: null,
    test_output: null,
    status,
    test_error: null,
    last_error: null,
  });
}

export function destination(id: string, workspaceId = WORKSPACE): Fact {
  const fields = { type: 'webhook', settings: { url: 'https://example.com' }, enabled: true };
  return fact('destination.created', id, { ...owned(id, workspaceId), ...fields });
}

export function warehouseTable(id: string, destinationId: string, workspaceId = WORKSPACE): Fact {
  return fact('warehouse_table.created', id, {
    id,
    workspace_id: workspaceId,
    destination_id: destinationId,
    name: id,
    columns: { id: { type: 'text', origin: 'fixed', since: AT } },
  });
}

export function rule(
  id: string,
  destinationId: string,
  transformationId: string | null,
  enabled = true,
  workspaceId = WORKSPACE,
): Fact {
  return fact('rule.created', id, {
    ...owned(id, workspaceId),
    destination_id: destinationId,
    event_types: [],
    event_names: [],
    environments: ['production'],
    transformation_id: transformationId,
    enabled,
  });
}

/** A health change by a proposer that has seen `turns` earlier ones. */
export function turned(entity: string, seen: number, id: string, state: DestinationState = 'bad'): Fact {
  const data = {
    id,
    state,
    because: state === 'bad' ? ('failing' as const) : null,
    since: AT,
    paced_until: AT,
    delivered_per_second: 0,
    failed_per_second: 1,
    oldest_waiting_ms: null,
    last_errors: [],
  };
  return { ...fact('destination.turned', entity, data), expected_version: seen, by: 'stage:deliver' };
}

export function alert(id: string, workspaceId = WORKSPACE): Fact {
  return fact('alert.created', id, {
    ...owned(id, workspaceId),
    environment: 'production',
    watch: { kind: 'silence', source_id: null, event_type: null, event_name: null, minutes: 30 },
    time_zone: 'UTC',
    quiet_hours: null,
    enabled: true,
    destination_id: null,
    email: null,
  });
}

/** As `turned`, of an alert. */
export function alertTurned(entity: string, seen: number, id: string, state: AlertState = 'firing'): Fact {
  const data = { id, state, value: 3, limit: 5, expected: null, from: AT, until: AT, paced_until: AT };
  return { ...fact('alert.turned', entity, data), expected_version: seen, by: 'stage:notice' };
}

/** Folds the facts at positions 0, 1, 2, ... */
export function foldAll(facts: readonly Fact[]): {
  readonly state: CatalogState;
  readonly verdicts: readonly Verdict[];
} {
  const state = new CatalogState();
  return { state, verdicts: facts.map((each, position) => applyFact(state, each, position)) };
}
