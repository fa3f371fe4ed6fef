import { access, readdir, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { openDevIssuer } from '@tributary/infra';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { RunningKafka } from '../../engines/index.ts';
import { Client, eventually } from '../../helpers/client.ts';
import { clusterEnvironment, openWorkspace, readyAt } from '../../helpers/cluster.ts';
import { engines, freshPrefix } from '../../helpers/engines.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { withAdmin } from '../../helpers/kafka.ts';
import { ownEngines } from '../../helpers/own-engines.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import { ServerProcess } from '../../helpers/server-process.ts';

const GONE = 'planted-gone-93e5@example.com';

/** A broker that checks its segments continuously, not every five minutes. */
const BROKER = { 'log.retention.check.interval.ms': 200, 'log.initial.task.delay.ms': 200 };
/** Settings that operators may use for an erasure within less than a day. */
const CATALOG = { 'retention.ms': -1, 'retention.bytes': -1, 'segment.ms': 500, 'file.delete.delay.ms': 0 };

describe.skipIf(engines() === undefined)('the catalog of a cluster', { timeout: 120_000 }, () => {
  const prefix = freshPrefix();
  let broker: RunningKafka;
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let environment: Readonly<Record<string, string>>;
  beforeAll(async () => {
    broker = await ownEngines().kafka.start({ settings: BROKER });
    folder = await temporaryFolder();
    environment = {
      ...clusterEnvironment(prefix),
      KAFKA_BROKERS: broker.url,
      TRIBUTARY_DATA_DIR: folder.path,
      LOG_LEVEL: 'info',
    };
    const configEntries = Object.entries(CATALOG).map(([name, value]) => ({ name, value: String(value) }));
    await withAdmin(broker.url, (admin) =>
      admin.createTopics({
        topics: [{ topic: `${prefix}catalog`, numPartitions: 1, replicationFactor: 1, configEntries }],
      }),
    );
  });
  afterAll(async () => {
    await broker?.stop();
    await removePrefix(prefix);
    await folder?.remove();
  });

  function start(...command: readonly string[]): ServerProcess {
    const server = new ServerProcess(command, environment);
    onTestFinished(() => server.kill());
    return server;
  }
  async function ran(...command: readonly string[]): Promise<string> {
    const run = await ranHere(command, environment);
    expect(run.code, run.log).toBe(0);
    return run.output;
  }
  const snapshot = () => join(folder.path, `${prefix}catalog.snapshot`);

  /** The files of the broker that contain the text. */
  async function holding(text: string): Promise<readonly string[]> {
    const data = join(dirname(broker.logFile), 'data');
    const found: string[] = [];
    for (const entry of await readdir(data, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      // Segments may be removed while they are listed.
      const bytes = await readFile(join(entry.parentPath, entry.name)).catch(() => Buffer.alloc(0));
      if (bytes.includes(text)) found.push(entry.name);
    }
    return found;
  }

  // It takes 45 s; `catalog-rewrite.spec.ts` does the same on SQLite in every run.
  it('starts from its snapshot, is sealed again, rewritten and erased, and is the same all the while', async () => {
    const processor = start('processor', '--stages', 'audit,replay,notice');
    let gateway = start('gateway');
    await readyAt(processor);
    let url = await readyAt(gateway);
    const token = await openDevIssuer({ dataFolder: folder.path, devIssuerKey: '' }).mint('a@example.com');
    const { id: workspaceId } = await new Client(url, token).post<{ id: string }>('/workspaces', {
      name: 'W',
    });
    const owner = () => new Client(url, token, workspaceId);
    const { id } = await owner().post<{ id: string }>('./members', { email: GONE, role: 'viewer' });
    const settings = { url: 'https://example.com', headers: { authorization: 'token of before' } };
    const body = { name: 'd', type: 'webhook', settings, enabled: true };
    await owner().post('./destinations', body);
    const known = async () => ({
      members: await owner().get('./members'),
      destinations: (await owner().get<readonly { id: string }[]>('./destinations')).map((each) => each.id),
    });
    const before = await known();

    // Starts from a snapshot.
    expect(await gateway.stop()).toBe(0);
    await access(snapshot());
    gateway = start('gateway');
    url = await readyAt(gateway);
    expect(gateway.log).toContain('the catalog begins from its snapshot');
    expect(await known()).toEqual(before);

    // Rotates the secrets beside both processes.
    const rotated = await ran('secrets', 'rotate');
    expect(rotated).toMatch(/^1 destination sealed anew under local-/);
    expect(rotated).toContain('local: nothing is sealed under it; it may go');
    expect((await owner().call('DELETE', `./members/${id}`)).status).toBe(200);
    const after = await known();
    expect(after).not.toEqual(before);
    expect((await holding(GONE)).length).toBeGreaterThan(0);
    expect((await holding('"$sealed":"local.')).length).toBeGreaterThan(0);

    // Rewrites the catalog beside both processes.
    const rewritten = await ran('catalog', 'rewrite');
    expect(rewritten).toMatch(/^the catalog begins at [1-9]\d* now/);
    expect(rewritten).toContain(`Kafka removes the bytes with the segments of ${prefix}catalog`);
    expect(await known()).toEqual(after);
    expect((await readFile(snapshot())).includes(GONE)).toBe(false);

    // The bytes leave the disks once the segment is closed, by the next fact at the latest, and the broker
    // has checked it.
    await owner().post('./sources', { name: 's', type: 'web' });
    await eventually(
      async () => [...(await holding(GONE)), ...(await holding('"$sealed":"local.'))],
      (files) => files.length === 0,
    );

    // A gateway without a snapshot has only the rows.
    expect(await gateway.stop()).toBe(0);
    await rm(snapshot());
    gateway = start('gateway');
    url = await readyAt(gateway);
    expect(gateway.log).toContain('the catalog was restored from the rows of a rewrite');
    expect(await known()).toEqual(after);

    // The audit log continues, written by a processor that also starts at the rewrite.
    expect(await processor.stop()).toBe(0);
    const { id: sourceId } = await owner().post<{ id: string }>('./sources', { name: 'last', type: 'web' });
    await readyAt(start('processor', '--stages', 'audit,replay,notice'));
    await eventually(
      () => owner().get<readonly unknown[]>(`./audit-log?entity_id=${sourceId}`),
      (entries) => entries.length === 1,
    );
  });

  it('names the missing facts where they were removed by hand', async () => {
    const before = start('gateway');
    const url = await readyAt(before);
    await openWorkspace(url, folder.path, 'W');
    expect(await before.stop()).toBe(0);
    const end = await withAdmin(broker.url, async (admin) => {
      const [partition] = await admin.fetchTopicOffsets(`${prefix}catalog`);
      return Number(partition?.high);
    });
    await withAdmin(broker.url, async (admin) => {
      await admin.fetchTopicMetadata({ topics: [`${prefix}catalog`] });
      await admin.deleteTopicRecords({
        topic: `${prefix}catalog`,
        partitions: [{ partition: 0, offset: String(end - 1) }],
      });
    });
    await rm(snapshot(), { force: true });
    const gateway = start('gateway');
    const [, adminUrl = ''] = await gateway.logged(/"adminUrl":"([^"]+)".*"message":"admin port open"/);
    await gateway.logged(/the catalog is incomplete: this process is not ready and stays so/);
    const readyz = await fetch(`${adminUrl}/readyz`);
    expect(readyz.status).toBe(503);
    expect(await readyz.json()).toMatchObject({
      checks: { catalog: expect.stringMatching(/facts are missing$/) },
    });
  });
});
