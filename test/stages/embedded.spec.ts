import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type Catalog,
  type Counters,
  createContractEvaluator,
  type Delivery,
  type DeliveryResult,
  declareTopics,
  eventKey,
  type Fact,
  type FactData,
  type FactType,
  HEADER,
  type History,
  NO_LOGGER,
  NO_METRICS,
  newId,
  publishProfileChanges,
} from '@tributary/core';
import {
  openInProcessLiveTail,
  openIsolatedVmSandbox,
  openLogCatalog,
  openSqliteCounters,
  openSqliteDeduplicator,
  openSqliteEventLog,
  openSqliteHistory,
  openSqliteProfileStore,
} from '@tributary/infra';
import { createPipeline, RunMetrics } from '@tributary/processors';
import { expect, it, onTestFinished } from 'vitest';
import { event, scriptedConnectors } from './harness.ts';
import { WORKSPACE } from './memory-catalog.ts';

const DAY_MS = 24 * 3_600_000;
const RETRIES = ['50ms', '100ms'];
const RECEIVED = 'events.production';
const TOPICS = declareTopics({ partitions: 2, retentionMs: DAY_MS, retrySteps: RETRIES, dedicated: [] });
const SOURCE = `function transform(event) {
  if (event.properties.total === 13) throw new Error('unlucky');
  event.properties.doubled = event.properties.total * 2;
  return event;
}`;

/** Closes resources at the end of a test, last opened first. */
function keep<T extends { close(): Promise<void> }>(opened: T): T {
  onTestFinished(() => opened.close());
  return opened;
}

async function propose<T extends FactType>(catalog: Catalog, type: T, data: FactData[T], entity: string) {
  const from = { address: '', request_id: '' };
  const at = new Date().toISOString();
  const verdict = await catalog.propose({ v: 1, type, entity, data, by: 'test', from, at } as Fact);
  expect(verdict).toMatchObject({ applied: true });
}

async function fillCatalog(catalog: Catalog): Promise<void> {
  const own = { workspace_id: WORKSPACE, name: 'n', created_by: 'a' };
  const [organization, place, transformation] = [newId(), newId(), newId()];
  await propose(
    catalog,
    'workspace.created',
    {
      workspace: { id: WORKSPACE, name: 'w', organization_id: organization, region: 'eu', status: 'active' },
      organization: { id: organization, name: 'o', regions: ['eu'], notification_email: null },
    },
    WORKSPACE,
  );
  const contract = newId();
  await propose(
    catalog,
    'contract.created',
    {
      ...own,
      id: contract,
      event_type: 'track',
      event_name: 'Order Placed',
      description: null,
      schema_definition: { properties: { total: { type: 'integer', required: true } } },
      enforcement_mode: 'block',
      undeclared_fields: 'allow',
      status: 'active',
    },
    contract,
  );
  await propose(
    catalog,
    'destination.created',
    { ...own, id: place, type: 'scripted', settings: {}, enabled: true },
    place,
  );
  await propose(
    catalog,
    'transformation.created',
    {
      ...own,
      id: transformation,
      description: null,
      source_code: SOURCE,
      test_input: null,
      test_output: null,
      status: 'active',
      test_error: null,
      last_error: null,
    },
    transformation,
  );
  const rule = newId();
  await propose(
    catalog,
    'rule.created',
    {
      ...own,
      id: rule,
      destination_id: place,
      event_types: [],
      event_names: [],
      environments: ['production'],
      transformation_id: transformation,
      enabled: true,
    },
    rule,
  );
}

/** Runs every stage on SQLite; `deliver` acts as the destination. */
async function startEverything(deliver: (delivery: Delivery) => DeliveryResult) {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-embedded-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const [clock, logger, metrics] = [Date.now, NO_LOGGER, NO_METRICS];
  const log = keep(
    await openSqliteEventLog({ folder: join(folder, 'log'), topics: TOPICS, logger, metrics }),
  );
  await log.createTopics();
  const catalog = keep(openLogCatalog({ log, logger }));
  await fillCatalog(catalog);
  const sandbox = keep(openIsolatedVmSandbox({ processes: 1, logger, metrics }));
  const counters = keep(openSqliteCounters({ folder: join(folder, 'funnel'), clock }));
  const history = keep(openSqliteHistory({ folder: join(folder, 'history'), clock, retentionMs: DAY_MS }));
  const deduplicator = keep(
    openSqliteDeduplicator({ folder: join(folder, 'dedupe'), clock, windowMs: DAY_MS }),
  );
  const profiles = keep(
    await openSqliteProfileStore({
      folder: join(folder, 'profiles'),
      clock,
      retentionMs: DAY_MS,
      publish: publishProfileChanges(log),
      logger,
      metrics,
    }),
  );
  const stages = createPipeline({
    log,
    liveTail: openInProcessLiveTail({ logger: NO_LOGGER }),
    catalog,
    deduplicator,
    reevaluations: deduplicator,
    contracts: createContractEvaluator(),
    counters,
    runMetrics: keep(new RunMetrics({ counters, clock, metrics, logger })),
    history,
    profiles,
    sandbox,
    slowSandbox: sandbox,
    connectors: scriptedConnectors({ deliver }),
    unseal: ({ id, workspace_id, version, settings }) => ({
      id,
      workspaceId: workspace_id,
      version,
      settings,
    }),
    clock,
    elapsed: () => performance.now(),
    logger,
    metrics,
    receivedTopics: [RECEIVED, 'events.development'],
    options: { retrySteps: RETRIES },
  });
  for (const stage of stages) {
    const run = await log.run(stage);
    onTestFinished(() => run.stop());
  }
  return { log, catalog, counters, history };
}

async function eventually(check: () => Promise<void>): Promise<void> {
  const deadline = Date.now() + 15_000;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

async function statuses(history: History): Promise<readonly (string | undefined)[]> {
  const page = await history.list({ kind: 'delivery', workspaceId: WORKSPACE, limit: 1_000 });
  return page.entries.map(({ facets }) => facets.status).sort();
}

async function accepted(counters: Counters): Promise<number> {
  const rows = await counters.volume({ workspaceId: WORKSPACE, fromHour: 0, toHour: Date.now() });
  return rows.reduce((sum, { count }) => sum + count, 0);
}

it('accepts events all the way on SQLite: checked, counted, transformed, delivered once, and the rest explained', async () => {
  const delivered = new Map<string, number>();
  const refusedOnce = new Set<string>();
  const { log, catalog, counters, history } = await startEverything((delivery) => {
    if (delivery.message_id === 'm7' && !refusedOnce.has('m7')) {
      refusedOnce.add('m7');
      return { outcome: 'retry', reason: 'HTTP 503', status: 503 };
    }
    expect(delivery.event.properties).toMatchObject({ doubled: expect.any(Number) });
    delivered.set(delivery.message_id, (delivered.get(delivery.message_id) ?? 0) + 1);
    return { outcome: 'delivered' };
  });
  const receivedAt = new Date().toISOString();
  const events = Array.from({ length: 200 }, (_, i) =>
    event(`m${i}`, { user_id: `u${i % 9}`, properties: { total: i }, received_at: receivedAt }),
  );
  const bad = event('bad', { properties: { total: 'many' }, received_at: receivedAt });
  const headers = { [HEADER.catalogPosition]: String(catalog.position), [HEADER.keyId]: 'key' };
  await log.append(
    RECEIVED,
    [...events, bad, ...events.slice(0, 20)].map((one) => ({
      key: eventKey(one),
      value: JSON.stringify(one),
      headers,
    })),
  );

  await eventually(async () => {
    expect(delivered.size).toBe(199);
    expect(await accepted(counters)).toBe(200);
    expect(await statuses(history)).toEqual(['dead', 'delivered']);
  });
  expect([...delivered.values()].every((times) => times === 1)).toBe(true);
  expect(delivered.has('m13')).toBe(false);
  const violations = await history.list({ kind: 'violation', workspaceId: WORKSPACE, limit: 10 });
  expect(violations.entries).toMatchObject([
    { body: { message_id: 'bad' }, facets: { path: '/total', action: 'blocked' } },
  ]);
  expect((await counters.lastUsed(['key'])).get('key')).toBe(Date.parse(receivedAt));
});
