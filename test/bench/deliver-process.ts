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
  TOPIC,
  Unavailable,
} from '@tributary/core';
import {
  openInProcessLiveTail,
  openSqliteDeduplicator,
  openSqliteEventLog,
  openSqliteHistory,
  openSqliteVolumeCounters,
} from '@tributary/infra';
import { createPipeline, DEFAULT_PIPELINE, RunFigures } from '@tributary/processors';
import { Agent, request } from 'undici';
import { MemoryCatalog, WORKSPACE } from '../stages/memory-catalog.ts';
import { RecordedProfiles } from '../stages/recorded-profiles.ts';
import type { DeliverTask, DeliverTimes } from './deliver-rows.ts';
import { benchEvent } from './event.ts';

/** Calls at a time, of the stage and of the bare client. */
const CALLS = DEFAULT_PIPELINE.maxCalls;
const DAY_MS = 24 * 3_600_000;
const PARTITIONS = 4;
const APPENDED_AT_ONCE = 1_000;

const task = JSON.parse(process.argv[2] ?? '{}') as DeliverTask;
const folder = mkdtempSync(join(tmpdir(), 'tributary-bench-'));
const clock = Date.now;
const tools = { logger: NO_LOGGER, metrics: NO_METRICS };

// The stage deliver over a backlog, and bare undici with what the stage would send, in turns, to the same webhook.
// One argument, the task as JSON; prints the deliveries a second of each as JSON.
const times: DeliverTimes = { deliver: [], bare: [] };
const all = Array.from({ length: task.events }, (_, n) => deliveryOf(n));
for (let round = 0; round <= task.rounds; round++) {
  const [bare, deliver] = [await postBare(), await workOff(round)];
  if (round === 0) continue; // warms up
  times.bare.push(bare);
  times.deliver.push(deliver);
}
process.stdout.write(`${JSON.stringify(times)}\n`);
rmSync(folder, { recursive: true, force: true });
process.exit(0);

function deliveryOf(n: number): Delivery {
  const at = new Date(clock()).toISOString();
  return {
    id: `00000000-0000-5000-8000-${String(n).padStart(12, '0')}`,
    workspace_id: WORKSPACE,
    environment: 'production',
    destination_id: 'place',
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
      workspace_id: WORKSPACE,
      ...benchEvent(n),
    } as Delivery['event'],
  };
}

/** The deliveries as JSON, posted, and nothing else. */
async function postBare(): Promise<number> {
  const agent = new Agent({ connections: CALLS });
  const bodyOf = ({ id, event, rule_id, destination_id }: Delivery) =>
    JSON.stringify({ id, type: 'event', event, rule_id, destination_id, attempt: 1 });
  const startedAt = performance.now();
  let next = 0;
  const caller = async () => {
    for (let from = next; from < all.length; from = next) {
      next += task.batchSize;
      const texts = all.slice(from, next).map(bodyOf);
      const body = task.batchSize === 1 ? texts[0] : `{"type":"batch","deliveries":[${texts.join(',')}]}`;
      const headers = { 'content-type': 'application/json' };
      const answer = await request(task.url, {
        dispatcher: agent,
        method: 'POST',
        headers,
        body: body ?? '',
      });
      await answer.body.dump();
      if (answer.statusCode !== 204) throw new Error(`HTTP ${answer.statusCode}`);
    }
  };
  await Promise.all(Array.from({ length: CALLS }, caller));
  const seconds = (performance.now() - startedAt) / 1_000;
  await agent.close();
  return all.length / seconds;
}

/** From when the stages begin to the last delivery. */
async function workOff(round: number): Promise<number> {
  const own = join(folder, String(round));
  const topics = declareTopics({
    partitions: PARTITIONS,
    retentionMs: DAY_MS,
    retryLabels: ['10s'],
    dedicated: [],
  });
  const log = await openSqliteEventLog({ folder: join(own, 'log'), topics, ...tools });
  await log.createTopics();
  for (let at = 0; at < all.length; at += APPENDED_AT_ONCE) {
    const entries = all.slice(at, at + APPENDED_AT_ONCE).map((delivery) => ({
      key: deliveryKey(delivery),
      value: JSON.stringify(delivery),
      headers: { [HEADER.catalogPosition]: '0', [HEADER.messageId]: delivery.message_id },
    }));
    await log.append(TOPIC.deliveries, entries);
  }
  const connectors = createConnectors({ egressAllow: ['127.0.0.0/8'], dataFolder: own, clock, ...tools });
  const names = ['deliver', 'deliver.slow', 'deliver.retry'];
  let delivered = 0;
  const count = (name: string, labels?: Labels) => {
    if (name === 'tributary_deliveries_total' && labels?.outcome === 'delivered') delivered += 1;
  };
  const stages = pipelineOf(own, log, connectors, { ...NO_METRICS, count }).filter(({ name }) =>
    names.includes(name),
  );
  const startedAt = performance.now();
  const runs = await Promise.all(stages.map((stage) => log.run(stage)));
  while (delivered < all.length) await sleep(2);
  const seconds = (performance.now() - startedAt) / 1_000;
  await Promise.all(runs.map((run) => run.stop()));
  await expectNothingIn(log, [TOPIC.outcomes, TOPIC.deliveriesDead]);
  await Promise.all([log.close(), connectors.close()]);
  return all.length / seconds;
}

/** First-try successes leave no trace; whatever does was no success. */
async function expectNothingIn(
  log: Awaited<ReturnType<typeof openSqliteEventLog>>,
  topics: readonly string[],
): Promise<void> {
  for (const topic of topics)
    for (let partition = 0; partition < PARTITIONS; partition++)
      if ((await log.end(topic, partition)) > 0) throw new Error(`deliveries failed: see ${topic}`);
}

function pipelineOf(
  own: string,
  log: Awaited<ReturnType<typeof openSqliteEventLog>>,
  connectors: ReturnType<typeof createConnectors>,
  metrics: Metrics,
) {
  const catalog = new MemoryCatalog();
  const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  const settings = { url: task.url, secret, batch_size: task.batchSize };
  catalog.addDestination('place', { type: 'webhook', settings });
  const unused: Sandbox = {
    run: () => Promise.reject(new Unavailable('nothing is transformed here')),
    check: () => Promise.reject(new Unavailable('nothing is transformed here')),
    async close() {},
  };
  const counters = openSqliteVolumeCounters({ folder: join(own, 'volume'), clock });
  return createPipeline({
    log,
    catalog,
    contracts: createContractEvaluator(),
    counters,
    figures: new RunFigures({ counters, clock, ...tools }),
    deduplicator: openSqliteDeduplicator({ folder: join(own, 'dedupe'), windowMs: DAY_MS, clock }),
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
    options: { retryLabels: ['10s'] },
  });
}
