import { createHash } from 'node:crypto';
import type { EventLog, Fact } from '@tributary/core';
import { TOPIC } from '@tributary/core';

/** The size of a catalog of the bench. */
export interface CatalogSize {
  readonly workspaces: number;
  readonly keysEach: number;
  readonly contractsEach: number;
  /** Each has a rule. */
  readonly destinationsEach: number;
}

export const LARGE: CatalogSize = {
  workspaces: 10_000,
  keysEach: 10,
  contractsEach: 3,
  destinationsEach: 10,
};
export const MEDIUM: CatalogSize = { ...LARGE, workspaces: 1_000 };
export const SMALL: CatalogSize = { ...LARGE, workspaces: 10 };

const AT = '2026-01-01T00:00:00.000Z';
const APPENDED_AT_ONCE = 2_000;

export const workspaceId = (n: number) => idOf('workspace', n);
export const rawKey = (workspace: number, n: number) => `trb_wk_prod_${workspace}-${n}`;
export const eventName = (n: number) => `Event ${n}`;

/** Every fact of such a catalog, in an order in which each is applied. */
export function* factsOf(size: CatalogSize): Generator<Fact> {
  for (let w = 0; w < size.workspaces; w++) yield* workspaceFacts(w, size);
}

function* workspaceFacts(w: number, size: CatalogSize): Generator<Fact> {
  const { keysEach, contractsEach, destinationsEach } = size;
  const id = workspaceId(w);
  const organization = {
    id: idOf('organization', w),
    name: `o ${w}`,
    regions: ['eu'],
    notification_email: null,
  };
  yield factOf('workspace.created', id, {
    workspace: { id, name: `w ${w}`, organization_id: organization.id, region: 'eu', status: 'active' },
    organization,
    owner: { account_id: idOf('account', w), organization_id: organization.id, role: 'owner' },
  });
  const owned = { workspace_id: id, created_by: idOf('account', w) };
  for (let n = 0; n < keysEach; n++) {
    const key = { id: idOf('key', w, n), name: `key ${n}`, ...owned };
    const hash = createHash('sha256').update(rawKey(w, n)).digest('hex');
    const fields = { hash, key_prefix: 'trb_wk_prod_abcdef', status: 'active', environment: 'production' };
    yield factOf('write_key.created', key.id, {
      ...key,
      ...fields,
      pubsub_topic: 'events.production',
      source_id: null,
    });
  }
  for (let n = 0; n < contractsEach; n++) {
    const contract = { id: idOf('contract', w, n), name: `contract ${n}`, ...owned };
    yield factOf('contract.created', contract.id, {
      ...contract,
      event_type: 'track',
      event_name: eventName(n),
      description: null,
      schema_definition: {
        properties: {
          order_id: { type: 'string', required: true },
          total: { type: 'number', required: true },
          currency: { type: 'string', enum: ['EUR', 'USD'] },
        },
      },
      enforcement_mode: 'warn',
      undeclared_fields: 'allow',
      status: 'active',
    });
  }
  for (let n = 0; n < destinationsEach; n++) {
    const destination = { id: idOf('destination', w, n), name: `destination ${n}`, ...owned };
    yield factOf('destination.created', destination.id, {
      ...destination,
      type: 'webhook',
      settings: { url: `https://example.com/${n}` },
      enabled: true,
    });
    yield factOf('rule.created', idOf('rule', w, n), {
      id: idOf('rule', w, n),
      name: `rule ${n}`,
      ...owned,
      destination_id: destination.id,
      event_types: ['track'],
      event_names: [eventName(n)],
      environments: ['production'],
      transformation_id: null,
      enabled: true,
    });
  }
}

/** Appends them all; returns their number. */
export async function appendFacts(log: EventLog, size: CatalogSize): Promise<number> {
  let facts = 0;
  let batch: { key: string; value: string; headers: Record<string, string> }[] = [];
  for (const fact of factsOf(size)) {
    batch.push({ key: fact.entity, value: JSON.stringify(fact), headers: {} });
    facts++;
    if (batch.length < APPENDED_AT_ONCE) continue;
    await log.append(TOPIC.catalog, batch);
    batch = [];
  }
  if (batch.length > 0) await log.append(TOPIC.catalog, batch);
  return facts;
}

function factOf(type: Fact['type'], entity: string, data: object): Fact {
  const from = { address: '192.0.2.1', request_id: idOf('request', 0) };
  return { v: 1, type, entity, expected_version: 0, data, by: idOf('account', 0), from, at: AT } as Fact;
}

/** A UUID derived from words, the same in every process. */
function idOf(...parts: readonly (string | number)[]): string {
  const hex = createHash('sha256').update(parts.join('/')).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-7${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
