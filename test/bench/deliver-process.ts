import { createHmac, createSecretKey } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createConnectors } from '@tributary/connectors';
import {
  createContractEvaluator,
  type Delivery,
  declareTopics,
  deliveryKey,
  HEADER,
  type Labels,
  type Metrics,
  NO_LOGGER,
  NO_METRICS,
  type Sandbox,
  type StageRun,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import {
  openInProcessLiveTail,
  openSqliteCounters,
  openSqliteDeduplicator,
  openSqliteEventLog,
  openSqliteHistory,
} from '@tributary/infra';
import { createPipeline, DEFAULT_PIPELINE, RunMetrics } from '@tributary/processors';
import { Agent, request } from 'undici';
import { MemoryCatalog, ORGANIZATION } from '../stages/memory-catalog.ts';
import { RecordedProfiles } from '../stages/profiles/recorded-profiles.ts';
import type { DeliverTask, DeliverTime, DeliverTimes } from './deliver-rows.ts';
import { benchEvent } from './event.ts';
import { residentMiB } from './usage.ts';

/** Calls at a time, of the stage and of the bare client. */
const CALLS = DEFAULT_PIPELINE.maxRequests;
const DAY_MS = 24 * 3_600_000;
const PARTITIONS = 4;
const DESTINATIONS_OF_A_WORKSPACE = 10;
const APPENDED_AT_ONCE = 1_000;
/** The signing key. */
const KEY = Buffer.alloc(32, 7);

type Log = Awaited<ReturnType<typeof openSqliteEventLog>>;

const task = JSON.parse(process.argv[2] ?? '{}') as DeliverTask;
const destinations = task.destinations ?? 1;
const folder = mkdtempSync(join(tmpdir(), 'tributary-bench-'));
const clock = Date.now;
const tools = { logger: NO_LOGGER, metrics: NO_METRICS };

// Compares, over the same backlog and to the same webhook, in alternation:
// - bare undici with the requests the stage would send,
// - a client that adds the work of any delivery from a log,
// - the stage deliver.
// Takes one argument, the task as JSON, and prints the time of each as JSON.
const times = { deliver: [] as DeliverTime[], fromLog: [] as DeliverTime[], bare: [] as DeliverTime[] };
const all = Array.from({ length: task.events }, (_, n) => deliveryOf(n));
for (let round = 0; round <= task.rounds; round++) {
  const bare = await measured(postBare);
  const own = join(folder, String(round));
  const log = await backlog(own);
  const fromLog = await measured(() => postFromLog(log));
  const deliver = await workOff(own, log);
  await log.close();
  if (round === 0) continue; // warm-up
  times.bare.push(bare);
  times.fromLog.push(fromLog);
  times.deliver.push(deliver);
}
const result: DeliverTimes = { ...times, residentMiB: residentMiB(process.pid) };
process.stdout.write(`${JSON.stringify(result)}\n`);
rmSync(folder, { recursive: true, force: true });
process.exit(0);

function deliveryOf(n: number): Delivery {
  const at = new Date(clock()).toISOString();
  return {
    id: `00000000-0000-5000-8000-${String(n).padStart(12, '0')}`,
    workspace_id: workspaceOf(n),
    environment: 'production',
    destination_id: destinationOf(n),
    rule_id: 'rule',
    message_id: `m${n}`,
    index: 0,
    created_at: at,
    attempts: [],
    redrives: 0,
    event: {
      message_id: `m${n}`,
      type: 'track',
      timestamp: at,
      received_at: at,
      environment: 'production',
      workspace_id: workspaceOf(n),
      ...benchEvent(n),
    } as Delivery['event'],
  };
}

/** Of the `n`th delivery: they go to all destinations in turn. */
function destinationOf(n: number): string {
  return `place-${n % destinations}`;
}

function workspaceOf(n: number): string {
  const workspace = Math.floor((n % destinations) / DESTINATIONS_OF_A_WORKSPACE);
  return `00000000-0000-4000-9000-${String(workspace).padStart(12, '0')}`;
}

/** Deliveries a second of `work`, and this process's processor time for each, over all its threads. */
async function measured(work: () => Promise<void>): Promise<DeliverTime> {
  const [startedAt, used] = [performance.now(), process.cpuUsage()];
  await work();
  const { user, system } = process.cpuUsage(used);
  const seconds = (performance.now() - startedAt) / 1_000;
  return { perSecond: all.length / seconds, us: (user + system) / all.length };
}

/** The deliveries as JSON, posted, without any other work. */
async function postBare(): Promise<void> {
  const agent = new Agent({ connections: CALLS });
  const headers = { 'content-type': 'application/json' };
  let next = 0;
  const caller = async () => {
    for (let from = next; from < all.length; from = next) {
      next += task.batchSize;
      await post(agent, headers, bodyOf(all.slice(from, next)));
    }
  };
  await Promise.all(Array.from({ length: CALLS }, caller));
  await agent.close();
}

/** The deliveries read from the log, parsed, signed by Standard Webhooks, and posted. */
async function postFromLog(log: Log): Promise<void> {
  const agent = new Agent({ connections: CALLS });
  const key = createSecretKey(KEY);
  const batches = batchesIn(log);
  const caller = async () => {
    for (let taken = await batches.next(); !taken.done; taken = await batches.next()) {
      const batch = taken.value;
      const body = Buffer.from(bodyOf(batch));
      const [id, at] = [batch[0]?.id ?? '', String(Math.floor(clock() / 1_000))];
      const signature = createHmac('sha256', key).update(`${id}.${at}.`).update(body).digest('base64');
      const headers = {
        'content-type': 'application/json',
        'idempotency-key': id,
        'webhook-id': id,
        'webhook-timestamp': at,
        'webhook-signature': `v1,${signature}`,
      };
      await post(agent, headers, body);
    }
  };
  await Promise.all(Array.from({ length: CALLS }, caller));
  await agent.close();
}

async function* batchesIn(log: Log): AsyncGenerator<readonly Delivery[]> {
  let rest: Delivery[] = [];
  for (let partition = 0; partition < PARTITIONS; partition++) {
    const end = await log.end(TOPIC.deliveries, partition);
    for (let from = 0; from < end; ) {
      const read = await log.read(TOPIC.deliveries, partition, from);
      for (const { value } of read.entries) {
        rest.push(JSON.parse(value));
        if (rest.length < task.batchSize) continue;
        yield rest;
        rest = [];
      }
      from = read.next;
    }
  }
  if (rest.length > 0) yield rest;
}

function bodyOf(deliveries: readonly Delivery[]): string {
  const texts = deliveries.map(({ id, event, rule_id, destination_id }) =>
    JSON.stringify({ id, type: 'event', event, rule_id, destination_id, attempt: 1 }),
  );
  return task.batchSize === 1 ? (texts[0] ?? '') : `{"type":"batch","deliveries":[${texts.join(',')}]}`;
}

async function post(agent: Agent, headers: Record<string, string>, body: string | Uint8Array): Promise<void> {
  const answer = await request(task.url, { dispatcher: agent, method: 'POST', headers, body });
  await answer.body.dump();
  if (answer.statusCode !== 204) throw new Error(`HTTP ${answer.statusCode}`);
}

/** A log with the deliveries in the folder. */
async function backlog(own: string): Promise<Log> {
  const topics = declareTopics({
    partitions: PARTITIONS,
    retentionMs: DAY_MS,
    retrySteps: ['10s'],
    dedicated: [],
  });
  const log = await openSqliteEventLog({ folder: join(own, 'log'), topics, ...tools });
  await log.createTopics();
  for (let at = 0; at < all.length; at += APPENDED_AT_ONCE) {
    const entries = all.slice(at, at + APPENDED_AT_ONCE).map((delivery) => ({
      key: deliveryKey(delivery),
      value: JSON.stringify(delivery),
      headers: {
        [HEADER.catalogPosition]: '0',
        [HEADER.messageId]: delivery.message_id,
        [HEADER.ruleVersion]: '0', // the rule never existed
        [HEADER.countedAs]: `bench|key|track|${Date.parse(delivery.event.received_at)}|${delivery.event.event}`,
      },
    }));
    await log.append(TOPIC.deliveries, entries);
  }
  return log;
}

/** Measures from the start of the stages to the last delivery. */
async function workOff(own: string, log: Log): Promise<DeliverTime> {
  const connectors = createConnectors({ egressAllow: ['127.0.0.0/8'], dataFolder: own, clock, ...tools });
  const names = ['deliver', 'deliver.slow', 'deliver.retry'];
  let delivered = 0;
  const count = (name: string, labels?: Labels, by = 1) => {
    if (name === 'tributary_deliveries_total' && labels?.outcome === 'delivered') delivered += by;
  };
  const stages = pipelineOf(own, log, connectors, { ...NO_METRICS, count }).filter(({ name }) =>
    names.includes(name),
  );
  const runs: StageRun[] = [];
  const time = await measured(async () => {
    runs.push(...(await Promise.all(stages.map((stage) => log.run(stage)))));
    while (delivered < all.length) await sleep(2);
  });
  await Promise.all(runs.map((run) => run.stop()));
  await expectNothingIn(log, [TOPIC.outcomes, TOPIC.deliveriesDead]);
  await connectors.close();
  return time;
}

/** A first-try success leaves no trace, so an entry in these topics means that a delivery failed. */
async function expectNothingIn(log: Log, topics: readonly string[]): Promise<void> {
  for (const topic of topics)
    for (let partition = 0; partition < PARTITIONS; partition++)
      if ((await log.end(topic, partition)) > 0) throw new Error(`deliveries failed: see ${topic}`);
}

function pipelineOf(
  own: string,
  log: Log,
  connectors: ReturnType<typeof createConnectors>,
  metrics: Metrics,
) {
  const catalog = catalogOfDestinations();
  const unused: Sandbox = {
    run: () => Promise.reject(new Unavailable('nothing is transformed here')),
    check: () => Promise.reject(new Unavailable('nothing is transformed here')),
    async close() {},
  };
  const counters = openSqliteCounters({ folder: join(own, 'funnel'), clock });
  return createPipeline({
    log,
    catalog,
    contracts: createContractEvaluator(),
    counters,
    runMetrics: new RunMetrics({ counters, clock, ...tools }),
    deduplicator: openSqliteDeduplicator({ folder: join(own, 'dedupe'), windowMs: DAY_MS, clock }),
    reevaluations: openSqliteDeduplicator({ folder: join(own, 'reevaluated'), windowMs: DAY_MS, clock }),
    history: openSqliteHistory({ folder: join(own, 'history'), clock, retentionMs: DAY_MS }),
    liveTail: openInProcessLiveTail({ logger: NO_LOGGER }),
    profiles: new RecordedProfiles(),
    sandbox: unused,
    slowSandbox: unused,
    connectors,
    unseal: ({ id, workspace_id, version, settings: opened }) => ({
      id,
      workspaceId: workspace_id,
      version,
      settings: opened,
    }),
    clock,
    elapsed: () => performance.now(),
    logger: NO_LOGGER,
    metrics,
    receivedTopics: [],
    options: { retrySteps: ['10s'] },
  });
}

function catalogOfDestinations(): MemoryCatalog {
  const catalog = new MemoryCatalog();
  const secret = `whsec_${KEY.toString('base64')}`;
  const settings = { url: task.url, secret, batch_size: task.batchSize };
  for (let n = 0; n < destinations; n++) {
    const id = workspaceOf(n);
    if (n % DESTINATIONS_OF_A_WORKSPACE === 0)
      catalog.add('workspace.created', id, {
        workspace: { id, name: 'w', organization_id: ORGANIZATION, region: 'eu', status: 'active' },
      });
    catalog.addDestination(destinationOf(n), { workspace_id: id, type: 'webhook', settings });
  }
  return catalog;
}
