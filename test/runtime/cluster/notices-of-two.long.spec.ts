import { type Fact, TOPIC } from '@tributary/core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Client, eventually } from '../../helpers/client.ts';
import { adminOf, clusterEnvironment, openWorkspace, readyAt } from '../../helpers/cluster.ts';
import { engines, freshPrefix } from '../../helpers/engines.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { entriesOf } from '../../helpers/log-of.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';
import { scrape } from '../../helpers/running-tributary.ts';
import { ServerProcess } from '../../helpers/server-process.ts';
import { destinationAt, forwardTo, startWebhook, type Webhook } from '../../helpers/webhook.ts';

/** Enough people for every partition. */
const PEOPLE = 16;

describe.skipIf(engines() === undefined)('two processors that deliver to one destination', () => {
  const prefix = freshPrefix();
  const processes: ServerProcess[] = [];
  const environment: Record<string, string> = {};
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let crm: Webhook;
  let ops: Webhook;
  let owner: Client;
  let producer: Client;
  let processors: readonly string[] = [];

  beforeAll(async () => {
    [folder, crm, ops] = await Promise.all([temporaryFolder(), startWebhook(), startWebhook()]);
    Object.assign(environment, clusterEnvironment(prefix), {
      TRIBUTARY_DATA_DIR: folder.path,
      TRIBUTARY_ALERT_AFTER: '2s',
      TRIBUTARY_RETRY_SCHEDULE: '500ms,1s',
    });
    for (const command of [['gateway'], ['processor'], ['processor']])
      processes.push(new ServerProcess(command, environment));
    const [gateway = ''] = await Promise.all(processes.map(readyAt));
    processors = await Promise.all(processes.slice(1).map(adminOf));
    ({ owner, producer } = await openWorkspace(gateway, folder.path, 'Two'));
  });
  afterAll(async () => {
    await Promise.all(processes.map((one) => one.stop()));
    await Promise.all([crm.close(), ops.close()]);
    await removePrefix(prefix);
    await folder.remove();
  });

  const failed = async (adminUrl: string) => {
    const text = await scrape(adminUrl);
    const counts = text.matchAll(/^tributary_deliveries_total\{[^}]*outcome="retry"[^}]*\} (\d+)$/gm);
    return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
  };

  it('find it bad both, and one notice is sent', async () => {
    const channel = await destinationAt(owner, ops.url);
    await forwardTo(owner, crm.url, 'Paid', { alerts: { destination_id: channel } });
    crm.behave((_call, response) => response.writeHead(503).end());
    for (let n = 0; n < PEOPLE; n++)
      await producer.post('./events/track', { event: 'Paid', user_id: `u${n}` });
    await eventually(
      () => Promise.all(processors.map(failed)),
      (counts) => counts.every((count) => count > 0),
    );
    await eventually(
      () => ops.calls.length,
      (count) => count > 0,
    );
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    const facts = (await entriesOf({ environment }, TOPIC.catalog)).map(
      ({ value }) => JSON.parse(value) as Fact,
    );
    const turns = facts.filter(({ type }) => type === 'destination.turned');
    expect(turns.length).toBeGreaterThanOrEqual(1);
    expect(new Set(turns.map(({ expected_version }) => expected_version))).toEqual(new Set([0]));
    expect(ops.deliveries().map(({ event }) => event.event)).toEqual(['Destination Bad']);
  });
});
