import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { receivedTopic, TOPIC } from '@tributary/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { eventually, listAll } from '../../helpers/client.ts';
import { startEmbedded } from '../../helpers/embedded.ts';
import { entriesOf } from '../../helpers/log-of.ts';
import { openProfiles, ProfileClient, sendTo } from '../../helpers/profile-client.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import { drained, type Tributary } from '../../helpers/running-tributary.ts';
import { ServerProcess } from '../../helpers/server-process.ts';
import { around, Load } from './load.ts';

const ROUNDS = 8;
const DRAINED_WITHIN_MS = 120_000;

/** A delivery to a file may take long on a busy disk; a failure must not wait for minutes. */
const ENV = { TRIBUTARY_DELIVERY_TIMEOUT: '60s', TRIBUTARY_RETRY_SCHEDULE: '1s,5s,10s' };

/** Locks, reports that are renewed within seconds, and the health of destinations over time. */
const NOT_RESTORED = [
  'health/health.db',
  'health/processes.db',
  'profiles/publishing.db',
  'profiles/writing.db',
];

/** A backup under load, a loss of the machine, a restore elsewhere, and everything sent again. */
describe('The drill of backup and restore', () => {
  it.each(Array.from({ length: ROUNDS }, (_, round) => round))(
    'restores the state at the backup, and sending all events again loses and duplicates none (round %i)',
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'tributary-drill-'));
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
      const at = (name: string) => join(folder, name);
      const lost = await startEmbedded(at('data'), ENV);
      onTestFinished(() => lost.kill());
      const { client: profiles } = await openProfiles(lost.owner, lost.workspaceId, sendTo(lost.url));
      const { id: destination_id } = await lost.owner.post<{ id: string }>('./destinations', {
        name: 'file',
        type: 'ndjson',
        settings: { folder: 'drilled' },
      });
      await lost.owner.post('./event-forwarding-rules', {
        name: 'all',
        destination_id,
        event_types: [],
        event_names: [],
        transformation_id: null,
        enabled: true,
      });

      const load = new Load();
      load.start({ owner: lost.owner, producer: lost.producer, profiles });
      await sleep(500 + Math.random() * 1_000);
      // A backup that is killed at any moment neither stands in the way of the next one nor counts as one.
      const killed = new ServerProcess(['backup', at('target')], { TRIBUTARY_DATA_DIR: at('data') });
      await sleep(Math.random() * 1_500);
      await killed.kill();
      const backups: string[] = [];
      for (const _ of ['first', 'second']) {
        const backup = new ServerProcess(['backup', at('target')], { TRIBUTARY_DATA_DIR: at('data') });
        expect(await backup.ended(), backup.log).toBe(0);
        backups.push(backup.output);
        await sleep(200 + Math.random() * 500);
      }
      await lost.kill();
      await load.stop();
      const moment = Date.parse(/the state of (\S+):/.exec(backups.at(-1) ?? '')?.[1] ?? '');
      expect(moment).toBeGreaterThan(0);

      // As a tool would copy it to another machine.
      cpSync(at('target'), at('copy'), { recursive: true });
      const restored = await ranHere(['restore', at('copy'), '--data-dir', at('elsewhere')], {});
      expect(restored, restored.log).toMatchObject({ code: 0 });
      // A new store that a backup does not know would be missing.
      expect(backups.join('')).not.toContain('not in it');
      expect(databasesIn(at('elsewhere'))).toEqual(
        databasesIn(at('data')).filter((name) => !NOT_RESTORED.includes(name)),
      );
      const environment = { ...lost.environment, TRIBUTARY_DATA_DIR: at('elsewhere') };
      const received = await messageIds({ environment }, receivedTopic('production'));
      const events = around(load.written.events, moment);
      expect(events.inside.length).toBeGreaterThan(100);
      expect(events.outside.length).toBeGreaterThan(0);
      expect(missing(events.inside, received)).toEqual([]);
      expect(events.outside.filter((id) => received.has(id))).toEqual([]);

      const server = await startEmbedded(at('elsewhere'), ENV);
      onTestFinished(() => server.kill());
      await drained(server, DRAINED_WITHIN_MS);
      const people = new ProfileClient(sendTo(server.url), profiles.orgId, profiles.headers);
      await expectCatalogAndProfiles(server, people, load, moment);
      await expectEvents(server, people, load, received);

      // Producers do not know what was lost: they send everything again.
      for (let from = 0; from < load.events.length; from += 50)
        await server.producer.post('./events/batch', { batch: load.events.slice(from, from + 50) });
      await drained(server, DRAINED_WITHIN_MS);
      await expectEvents(server, people, load, new Set(load.events.map(({ message_id }) => message_id)));
      console.log(
        `${received.size} of ${load.events.length} events were in the backup; ${/writers waited.*/.exec(backups.at(-1) ?? '')?.[0]}; ${/\d+ files.*/.exec(backups.at(-1) ?? '')?.[0]}`,
      );
    },
    300_000,
  );
});

async function expectCatalogAndProfiles(
  { owner }: Tributary,
  people: ProfileClient,
  load: Load,
  moment: number,
): Promise<void> {
  const contracts = new Set(
    (await listAll<{ event_name: string }>(owner, './event-contracts')).map((one) => one.event_name),
  );
  const expected = around(load.written.contracts, moment);
  expect(missing(expected.inside, contracts)).toEqual([]);
  expect(expected.outside.filter((name) => contracts.has(name))).toEqual([]);

  const { inside, outside } = around(load.written.profiles, moment);
  for (const email of inside) expect(await people.search({ email: [email] }), email).toHaveLength(1);
  for (const email of outside) expect(await people.search({ email: [email] }), email).toHaveLength(0);
}

/** Each of these events is accepted once, counted once, in the profile of its user, and delivered. */
async function expectEvents(
  server: Tributary,
  people: ProfileClient,
  load: Load,
  expected: ReadonlySet<string>,
): Promise<void> {
  const accepted = await entriesOf(server, TOPIC.accepted);
  const ids = accepted.map(({ value }) => (JSON.parse(value) as { message_id: string }).message_id);
  expect([...ids].sort()).toEqual([...expected].sort());
  const volume = await eventually(
    async () =>
      (await server.owner.get<readonly { event_count: number }[]>('./event-volume')).reduce(
        (sum, { event_count }) => sum + event_count,
        0,
      ),
    (count) => count >= expected.size,
  );
  expect(volume).toBe(expected.size);

  const newest = new Map<string, number>();
  for (const { message_id, user_id, traits } of load.events)
    if (traits !== undefined && expected.has(message_id)) newest.set(user_id, traits.n);
  for (const [user, n] of newest) {
    const [found] = await people.search({ user_id: [user] });
    expect(found?.profile, user).toMatchObject({ traits: { n } });
  }
  const folder = join(server.folder, 'ndjson', server.workspaceId, 'drilled');
  await eventually(
    () => missing([...expected], deliveredIn(folder)),
    (left) => left.length === 0,
  );
}

/** Those below the top, where only the lock of the folder is one. */
function databasesIn(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.db') && name.includes('/'))
    .sort();
}

function deliveredIn(folder: string): ReadonlySet<string> {
  const lines = readdirSync(folder).flatMap((name) => readFileSync(join(folder, name), 'utf8').split('\n'));
  return new Set(
    lines
      .filter(Boolean)
      .map((line) => (JSON.parse(line) as { event: { message_id: string } }).event.message_id),
  );
}

async function messageIds(
  server: Pick<Tributary, 'environment'>,
  topic: string,
): Promise<ReadonlySet<string>> {
  const entries = await entriesOf(server, topic);
  return new Set(entries.map(({ value }) => (JSON.parse(value) as { message_id: string }).message_id));
}

function missing(expected: readonly string[], found: ReadonlySet<string>): readonly string[] {
  return expected.filter((id) => !found.has(id));
}
