// Runs alone in the long form: it kills engines, and alerts compare times.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../engines/engine-process.ts';
import type { RunningEngine, RunningKafka } from '../engines/index.ts';
import { eventually } from '../helpers/client.ts';
import { adminOf, clusterEnvironment, openWorkspace, readyAt } from '../helpers/cluster.ts';
import { engines, freshPrefix } from '../helpers/engines.ts';
import { temporaryFolder } from '../helpers/folder.ts';
import { ownEngines } from '../helpers/own-engines.ts';
import { hasPrometheus, Prometheus } from '../helpers/prometheus.ts';
import { removePrefix } from '../helpers/remove-prefix.ts';
import { ranHere } from '../helpers/run-cli.ts';
import { ServerProcess } from '../helpers/server-process.ts';
import { emptyPanels } from './empty-panels.ts';
import { quickRules } from './quick-rules.ts';
import { Traffic } from './traffic.ts';

/** As long as a backlog takes on a machine that others keep busy. */
const WITHIN_MS = 400_000;
/** Nothing is wrong when no alert fired for so long, s. */
const QUIET_S = 10;

interface StageRow {
  readonly stage: string;
  readonly members: number;
  readonly lag_records: number;
  readonly lag_seconds: number;
  readonly arrival_per_second: number;
  readonly wanted_processes: number;
}

describe.runIf(hasPrometheus() && engines() !== undefined)(
  'alerts about a cluster',
  { timeout: 2 * WITHIN_MS },
  () => {
    const prefix = freshPrefix();
    let kafka: RunningKafka;
    let redis: RunningEngine;
    let folder: Awaited<ReturnType<typeof temporaryFolder>>;
    let environment: Readonly<Record<string, string>>;
    let gateway: ServerProcess;
    let processor: ServerProcess;
    let processorPort: string;
    let traffic: Traffic;
    let prometheus: Prometheus;

    /** On the same ports each time, as Prometheus has them. */
    const startProcessor = () =>
      new ServerProcess(['processor'], { ...environment, TRIBUTARY_ADMIN_PORT: processorPort });

    beforeAll(async () => {
      [kafka, redis] = await Promise.all([ownEngines().kafka.start(), ownEngines().redis.start()]);
      folder = await temporaryFolder();
      processorPort = String(await freePort());
      environment = {
        ...clusterEnvironment(prefix),
        KAFKA_BROKERS: kafka.url,
        REDIS_URL: redis.url,
        TRIBUTARY_DATA_DIR: folder.path,
        TRIBUTARY_EGRESS_ALLOW: '127.0.0.1/32',
        TRIBUTARY_RETRY_SCHEDULE: '1s,2s',
        TRIBUTARY_RETRY_EXPIRY: '1h',
        TRIBUTARY_ALERT_AFTER: '1s',
        // A processor that a busy machine holds up stays a member.
        KAFKA_SESSION_TIMEOUT: '20s',
        TRIBUTARY_SANDBOX_TIME: '1s',
      };
      gateway = new ServerProcess(['gateway'], environment);
      const url = await readyAt(gateway);
      processor = startProcessor();
      await readyAt(processor);
      const workspace = await openWorkspace(url, folder.path, 'Alerts');
      traffic = new Traffic({ url, environment, ...workspace });
      await traffic.start();
      const adminUrls = [await adminOf(gateway), await adminOf(processor)];
      prometheus = await Prometheus.start(adminUrls, await quickRules());
    }, 400_000);
    afterAll(async () => {
      await prometheus?.stop();
      await traffic?.close();
      await Promise.all([gateway, processor].map((one) => one?.kill()));
      await removePrefix(prefix);
      await Promise.all([kafka, redis].map((engine) => engine?.stop()));
      await folder?.remove();
    });

    const allFire = async (...alerts: readonly string[]) =>
      eventually(
        () => prometheus.firing(),
        (firing) => alerts.every((alert) => firing.includes(alert)),
        WITHIN_MS,
      );
    const noneFires = () =>
      eventually(
        () => prometheus.firing(QUIET_S),
        (fired) => fired.length === 0,
        WITHIN_MS,
      );
    const rows = async () => {
      const { code, output } = await ranHere(['stages', '--json', '--over', '2'], environment);
      expect(code).toBe(0);
      return new Map((JSON.parse(output) as readonly StageRow[]).map((row) => [row.stage, row]));
    };

    it('fires none while nothing is wrong, and reports how many processes a stage has', async () => {
      await eventually(
        () => prometheus.query('count_over_time(tributary_build_info{role="gateway"}[1m]) >= 15'),
        (found) => found.length > 0,
      );
      await noneFires();
      const validate = (await rows()).get('validate');
      expect(validate).toMatchObject({ members: 1, wanted_processes: 1 });
      expect(validate?.arrival_per_second).toBeGreaterThan(1);
    });

    it('reports the killed processor: by members, and by a lag that grows although no process has it', async () => {
      await processor.kill();
      const firing = await allFire(
        'TributaryNoProcessor',
        'TributaryStageUnattended',
        'TributaryStageOld',
        'TributaryStageUndersized',
      );
      expect(firing).not.toContain('TributaryLagUnknown');
      expect(firing).not.toContain('TributaryNoGateway');
      const validate = (await rows()).get('validate');
      expect(validate).toMatchObject({ members: 0, wanted_processes: 1 });
      expect(validate?.lag_records).toBeGreaterThan(10);
      expect(validate?.lag_seconds).toBeGreaterThan(15);
      processor = startProcessor();
      await noneFires();
    });

    it('reports a Redis that does not answer, and the stage that waits for it', async () => {
      await redis.pause();
      try {
        const firing = await allFire('TributaryRedisDown', 'TributaryStageOld');
        for (const other of ['TributaryKafkaDown', 'TributaryElasticsearchDown', 'TributaryStageUnattended'])
          expect(firing).not.toContain(other);
      } finally {
        await redis.resume();
      }
      await noneFires();
    });

    it('reports an Elasticsearch that refuses writes', async () => {
      const url = `${engines()?.elasticsearchUrl}/tributary-${prefix}*/_settings`;
      const block = async (blocked: boolean) => {
        const { status } = await fetch(url, {
          method: 'PUT',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ 'index.blocks.write': blocked }),
        });
        expect(status).toBe(200);
      };
      await block(true);
      try {
        const firing = await allFire('TributaryElasticsearchDown');
        expect(firing).not.toContain('TributaryRedisDown');
        expect(firing).not.toContain('TributaryKafkaDown');
      } finally {
        await block(false);
      }
      await noneFires();
    });

    it('reports a Kafka that does not answer, and that the lag is unknown', async () => {
      await kafka.pause();
      try {
        const firing = await allFire(
          'TributaryKafkaDown',
          'TributaryEventsUnconfirmed',
          'TributaryErrors',
          'TributaryLagUnknown',
        );
        expect(firing).not.toContain('TributaryRedisDown');
      } finally {
        await kafka.resume();
      }
      await noneFires();
    });

    it('has data for every query of every panel, once everything was used', async () => {
      traffic.set({ destinations: true, events: true, flood: true, requests: true });
      await traffic.poison();
      await eventually(
        () => emptyPanels(prometheus, /tributary_profile_changes_pending/),
        (left) => left.length === 0,
        WITHIN_MS,
      );
    });
  },
);
