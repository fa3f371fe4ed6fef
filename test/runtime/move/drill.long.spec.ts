import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { TOPIC } from '@tributary/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Client, eventually, listAll } from '../../helpers/client.ts';
import { startEmbedded } from '../../helpers/embedded.ts';
import { engines } from '../../helpers/engines.ts';
import { entriesOf } from '../../helpers/log-of.ts';
import { openProfiles, ProfileClient, sendTo } from '../../helpers/profile-client.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';
import { drained } from '../../helpers/running-tributary.ts';
import { startWebhook } from '../../helpers/webhook.ts';
import { Load } from '../backup/load.ts';
import { moveWithKills, SETTINGS, startOn, targetOf, volumeOf } from './installation.ts';

const ROUNDS = 4;
const KILLS = 8;
/** Lines that a move prints when it has copied something. */
const PARTS = 25;
const DRAINED_WITHIN_MS = 180_000;

/** A machine that is killed under load, a move that is killed at random moments, and everything sent again. */
describe.skipIf(engines() === undefined)('The drill of a move', () => {
  it.each(Array.from({ length: ROUNDS }, (_, round) => round))(
    'loses and duplicates nothing (round %i)',
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'tributary-move-drill-'));
      const target = targetOf(folder);
      onTestFinished(async () => {
        await removePrefix(target.TRIBUTARY_PREFIX ?? '');
        rmSync(folder, { recursive: true, force: true });
      });
      const webhook = await startWebhook();
      onTestFinished(() => webhook.close());
      const source = await startEmbedded(folder, SETTINGS);
      onTestFinished(() => source.kill());
      const { owner, producer, workspaceId } = source;
      const { client: people } = await openProfiles(owner, workspaceId, sendTo(source.url));
      const { id: destination_id } = await owner.post<{ id: string }>('./destinations', {
        name: 'hook',
        type: 'webhook',
        settings: { url: webhook.url },
      });
      await owner.post('./event-forwarding-rules', { name: 'all', destination_id });
      // The first write of a process takes long on a busy machine.
      await people.write({ email: 'first@example.com' });
      const load = new Load();
      load.start({ owner, producer, profiles: people });
      await sleep(5_000 + Math.random() * 5_000);
      await source.kill();
      await load.stop();

      const acceptedBefore = await entriesOf(source, TOPIC.accepted);
      const kills = Array.from({ length: KILLS }, (_, nth) => {
        // A later moment may be after the end, and the round then has no kill.
        if (nth === 0) return /copied .*\n/;
        if (Math.random() < 0.3) return 500 + Math.random() * 6_000;
        return new RegExp(`(?:copied .*\\n){${1 + Math.floor(Math.random() * PARTS)}}`);
      });
      const { output, killed } = await moveWithKills(target, kills);
      expect(killed).toBeGreaterThan(0);
      const cluster = await startOn(target);
      onTestFinished(() => cluster.kill());
      const there = new Client(cluster.url, cluster.idToken, workspaceId);
      const peopleThere = new ProfileClient(sendTo(cluster.url), people.orgId, people.headers);
      await drained(cluster, DRAINED_WITHIN_MS);
      // Producers do not know what was answered when the machine was killed: they send everything again.
      const again = there.with({ token: source.writeKey });
      for (let from = 0; from < load.events.length; from += 50)
        await again.post('./events/batch', { batch: load.events.slice(from, from + 50) });
      await drained(cluster, DRAINED_WITHIN_MS);

      const sent = load.events.map(({ message_id }) => message_id).sort();
      // What every stage had done stayed behind; what was copied has its offset.
      const acceptedThere = await entriesOf({ environment: target }, TOPIC.accepted);
      const idAt = new Map(
        [...acceptedBefore, ...acceptedThere].map(({ position, value }) => [
          `${position.partition}/${position.offset}`,
          (JSON.parse(value) as { message_id: string }).message_id,
        ]),
      );
      expect([...idAt.values()].sort()).toEqual(sent);
      expect(await volumeOf(there)).toBe(sent.length);
      await eventually(
        () => new Set(webhook.deliveries().map(({ event }) => event.message_id)).size,
        (count) => count === sent.length,
      );
      const newest = new Map<string, number>();
      for (const { user_id, traits } of load.events) if (traits !== undefined) newest.set(user_id, traits.n);
      for (const [user, n] of newest)
        expect((await peopleThere.search({ user_id: [user] }))[0]?.profile, user).toMatchObject({
          traits: { n },
        });
      const contracts = new Set(
        (await listAll<{ event_name: string }>(there, './event-contracts')).map((one) => one.event_name),
      );
      for (const { id, answeredAt } of load.written.contracts)
        if (answeredAt !== undefined) expect(contracts).toContain(id);
      for (const { id: email, answeredAt } of load.written.profiles)
        if (answeredAt !== undefined)
          expect(await peopleThere.search({ email: [email] }), email).toHaveLength(1);
      console.log(`${sent.length} events; the move was killed ${killed} times\n${output}`);
    },
    600_000,
  );
});
