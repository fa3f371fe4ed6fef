import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startEmbedded } from '../../helpers/embedded.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { openProfiles, sendTo } from '../../helpers/profile-client.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import type { Tributary } from '../../helpers/running-tributary.ts';

/**
 * Made by `tributary dev` of 0.1.0 and taken over by that of 0.2.0, which were ended by SIGKILL: a contract, a transformation,
 * a rule to files and one to a webhook that refuses connections, and 22 events, `old-0` to `old-19` with every fourth against
 * the contract.
 */
const EARLIER_FOLDER = fileURLToPath(new URL('./data/0.2.0.tar.gz', import.meta.url));
const EARLIER_LINES = 15;
/** The events are from November 2026, and the test must not fail once their retention has passed. */
const FOREVER = '3650d';
/** Their ids contain no time, and no deduplicator remembers them by now: they are found near their time alone. */
const AROUND = '?around=2026-11-25T22:55:30Z';

describe('the data folder of an earlier release', () => {
  let parent: Awaited<ReturnType<typeof temporaryFolder>>;
  let folder = '';
  let tributary: Tributary;
  const linesDelivered = () => {
    const files = join(folder, 'ndjson', tributary.workspaceId, 'events');
    const lines = execFileSync('sh', ['-c', 'cat "$0"/*.ndjson', files], { encoding: 'utf8' }).trim();
    return lines.split('\n').map((line) => JSON.parse(line) as { event: { message_id: string } });
  };

  beforeAll(async () => {
    parent = await temporaryFolder();
    folder = parent.path;
    execFileSync('tar', ['-xzf', EARLIER_FOLDER, '-C', folder]);
    tributary = await startEmbedded(folder, {
      TRIBUTARY_EGRESS_ALLOW: '127.0.0.0/8',
      TRIBUTARY_RETENTION: FOREVER,
      TRIBUTARY_HISTORY_RETENTION: FOREVER,
    });
  });
  afterAll(async () => {
    await tributary.remove();
    await parent.remove();
  });

  it('opens with its workspace, keys and secrets', async () => {
    const { workspaceId, writeKey } = JSON.parse(readFileSync(join(folder, 'quickstart.json'), 'utf8'));
    expect([tributary.workspaceId, tributary.writeKey]).toEqual([workspaceId, writeKey]);
    expect(await tributary.owner.get('./event-contracts')).toMatchObject([{ name: 'Orders', version: 1 }]);
    expect(await tributary.owner.get('./event-transformations')).toMatchObject([{ status: 'active' }]);
    expect(await tributary.owner.get('./destinations')).toHaveLength(2);
  });

  it('still has the outcome of each of its events', async () => {
    expect(await tributary.owner.get(`./events/old-3${AROUND}`)).toMatchObject({
      status: 'rejected',
      contract: { violations: [{ kind: 'type', path: '/total' }] },
    });
    const accepted = await tributary.owner.get<{ rules: readonly { name: string; deliveries: unknown }[] }>(
      `./events/old-1${AROUND}`,
    );
    expect(accepted).toMatchObject({ contract: { outcome: 'accepted' } });
    expect(accepted.rules.find(({ name }) => name === 'To file')).toMatchObject({
      deliveries: [{ status: 'delivered' }],
    });
    const [contract] = await tributary.owner.get<readonly { id: string }[]>('./event-contracts');
    expect(await tributary.owner.get(`./event-contracts/${contract?.id}/violations`)).toHaveLength(5);
  });

  it('could not be backed up before its upgrade: it can, at rest and beside its process, and the copy is whole', async () => {
    const copies = await temporaryFolder();
    onTestFinished(() => copies.remove());
    const [atRest, target] = [join(copies.path, 'at-rest'), join(copies.path, 'target')];
    mkdirSync(atRest);
    execFileSync('tar', ['-xzf', EARLIER_FOLDER, '-C', atRest]);
    for (const [n, TRIBUTARY_DATA_DIR] of [atRest, folder].entries()) {
      expect(await ranHere(['backup', target], { TRIBUTARY_DATA_DIR })).toMatchObject({ code: 0 });
      const restored = join(copies.path, `restored-${n}`);
      expect(await ranHere(['restore', target, '--data-dir', restored], {})).toMatchObject({ code: 0 });
      const key = 'quickstart.json';
      expect(readFileSync(join(restored, key))).toEqual(readFileSync(join(TRIBUTARY_DATA_DIR, key)));
      expect(readdirSync(join(restored, 'log'))).toEqual(readdirSync(join(TRIBUTARY_DATA_DIR, 'log')));
    }
  });

  it('delivers none of its events again, and transforms and delivers new ones', async () => {
    const before = linesDelivered();
    expect(new Set(before.map(({ event }) => event.message_id)).size).toBe(EARLIER_LINES);
    expect(before).toHaveLength(EARLIER_LINES);
    const send = (message_id: string, total: unknown) =>
      tributary.producer.post('./events/track', {
        message_id,
        event: 'Order Completed',
        user_id: 'user-2',
        properties: { total },
      });
    await send('new-bad', 'much');
    await send('new-good', 12);
    await eventually(linesDelivered, (lines) => lines.length > EARLIER_LINES);
    expect(linesDelivered().slice(EARLIER_LINES)).toMatchObject([
      { event: { message_id: 'new-good', properties: { total: 12, tagged: true } } },
    ]);
  });

  it('answers with its profiles, and unifies new events with them', async () => {
    const { client } = await openProfiles(
      {
        ok: async (method, path, body) => (await tributary.owner.call(method, path, body)).body as never,
      },
      tributary.workspaceId,
      sendTo(tributary.url),
    );
    const [known] = await client.search({ user_id: ['user-1'] });
    expect(known).toMatchObject({ ids: { email: [{ email: 'one@example.org' }] } });
    await tributary.producer.post('./events/identify', {
      user_id: 'user-1',
      traits: { email: 'two@example.org' },
    });
    const found = await eventually(
      () => client.search({ email: ['two@example.org'] }),
      (records) => records.length === 1,
    );
    expect(found[0]?.ucid).toBe(known?.ucid);
  });
});
