// Runs alone in the long form: it starts an Elasticsearch of its own and loses it.
import { mkdtempSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { TOPIC } from '@tributary/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startCluster } from '../../helpers/cluster.ts';
import { removeIndices } from '../../helpers/elasticsearch.ts';
import { engines } from '../../helpers/engines.ts';
import { deleteTopics, withAdmin } from '../../helpers/kafka.ts';
import { entriesOf } from '../../helpers/log-of.ts';
import { ownEngines } from '../../helpers/own-engines.ts';
import { openProfiles, ProfileClient, sendTo } from '../../helpers/profile-client.ts';
import { removeKeys } from '../../helpers/redis.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import { drained, type Tributary } from '../../helpers/running-tributary.ts';
import { around, Load } from './load.ts';

const DRAINED_WITHIN_MS = 180_000;

/** The order of docs/operations/backup.md, with the tools that it names. */
describe.skipIf(engines() === undefined)('The drill of a cluster', () => {
  it('restores all data after the loss of the catalog, Elasticsearch and Redis', async () => {
    const elasticsearch = await ownEngines().elasticsearch.start();
    onTestFinished(() => elasticsearch.stop());
    const folder = mkdtempSync(join(tmpdir(), 'tributary-cluster-drill-'));
    const env = { ELASTICSEARCH_URL: elasticsearch.url, LOG_LEVEL: 'info' };
    let server = await startCluster(folder, env);
    onTestFinished(() => server.remove());
    const prefix = server.environment.TRIBUTARY_PREFIX ?? '';
    const brokers = server.environment.KAFKA_BROKERS ?? '';
    const { client } = await openProfiles(server.owner, server.workspaceId, sendTo(server.url));
    const profilesAt = ({ url }: Tributary) => new ProfileClient(sendTo(url), client.orgId, client.headers);
    const clients = () => ({ owner: server.owner, producer: server.producer, profiles: profilesAt(server) });

    const load = new Load();
    load.start(clients());
    await sleep(4_000);
    await load.stop();
    await drained(server, DRAINED_WITHIN_MS);
    const contracts = await server.owner.get('./event-contracts');

    // Backs up while events come.
    load.start(clients(), false);
    const before = Date.now();
    await snapshot(elasticsearch.url, 'PUT', '/_snapshot/drill', {
      type: 'fs',
      settings: { location: 'drill' },
    });
    await snapshot(elasticsearch.url, 'PUT', '/_snapshot/drill/one?wait_for_completion=true', {
      indices: `tributary-${prefix}*`,
      include_global_state: false,
    });
    const file = join(folder, 'catalog.ndjson');
    const exported = await ranHere(['catalog', 'export'], server.environment);
    expect(exported, exported.log).toMatchObject({ code: 0 });
    await writeFile(file, exported.output);
    await sleep(1_000);
    await load.stop();
    const audit = await eventually(
      () => server.owner.get<readonly object[]>('./audit-log'),
      (entries) => entries.length > 0,
    );

    // Loses the catalog, Elasticsearch and Redis.
    await server.kill();
    await withAdmin(brokers, (admin) => deleteTopics(admin, [`${prefix}catalog`]));
    await removeIndices(elasticsearch.url, prefix);
    await removeKeys(server.environment.REDIS_URL ?? '', prefix);

    const topics = await ranHere(['topics'], server.environment);
    expect(topics, topics.log).toMatchObject({ code: 0 });
    const imported = await ranHere(['catalog', 'import', file], server.environment);
    expect(imported, imported.log).toMatchObject({ code: 0 });
    await snapshot(elasticsearch.url, 'POST', '/_snapshot/drill/one/_restore?wait_for_completion=true', {
      indices: `tributary-${prefix}*`,
      include_aliases: true,
    });
    await readAgain(brokers, prefix, 'profile', [TOPIC.accepted]);
    await readAgain(brokers, prefix, 'history', [TOPIC.violations, TOPIC.deliveriesDead, TOPIC.outcomes]);

    server = await startCluster(folder, env);
    await drained(server, DRAINED_WITHIN_MS);
    expect(await server.owner.get('./event-contracts')).toEqual(contracts);
    expect(await server.owner.get('./audit-log')).toEqual(audit);

    const sent = load.written.events.filter(({ answeredAt }) => answeredAt !== undefined).map(({ id }) => id);
    const accepted = await entriesOf(server, TOPIC.accepted);
    const ids = accepted.map(({ value }) => (JSON.parse(value) as { message_id: string }).message_id);
    expect(ids.sort()).toEqual([...sent].sort());
    // A partition is counted again when its next event comes.
    const more = Array.from({ length: 40 }, (_, n) => ({
      type: 'track',
      event: 'Drilled',
      message_id: `more-${n}`,
      user_id: `more-${n}`,
    }));
    await server.producer.post('./events/batch', { batch: more });
    const volume = async () =>
      (await server.owner.get<readonly { event_count: number }[]>('./event-volume')).reduce(
        (sum, { event_count }) => sum + event_count,
        0,
      );
    await eventually(volume, (count) => count >= sent.length + more.length);
    await drained(server, DRAINED_WITHIN_MS);
    expect(await volume()).toBe(sent.length + more.length);

    const profiles = profilesAt(server);
    const newest = new Map<string, number>();
    for (const { user_id, traits } of load.events) if (traits !== undefined) newest.set(user_id, traits.n);
    for (const [user, n] of newest)
      expect((await profiles.search({ user_id: [user] }))[0]?.profile, user).toMatchObject({ traits: { n } });
    const { inside } = around(load.written.profiles, before);
    expect(inside.length).toBeGreaterThan(0);
    for (const email of inside) expect(await profiles.search({ email: [email] }), email).toHaveLength(1);
    console.log(`${sent.length} events, ${inside.length} profiles by the API, ${newest.size} by events`);
  }, 900_000);
});

async function snapshot(url: string, method: string, path: string, body: object): Promise<void> {
  const response = await fetch(url + path, {
    method,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  expect(response.ok, `${path}: ${await response.clone().text()}`).toBe(true);
}

/** Sets the positions of a stage back to the first kept records, once its killed members are gone. */
async function readAgain(
  brokers: string,
  prefix: string,
  stage: string,
  topics: readonly string[],
): Promise<void> {
  await withAdmin(brokers, async (admin) => {
    for (const topic of topics)
      await eventually(
        () =>
          admin.resetOffsets({ groupId: prefix + stage, topic: prefix + topic, earliest: true }).then(
            () => true,
            () => false,
          ),
        (done) => done,
      );
  });
}
