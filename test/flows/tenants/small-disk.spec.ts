import { randomBytes, randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openDevIssuer } from '@tributary/infra';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Client, eventually } from '../../helpers/client.ts';
import { startEmbedded } from '../../helpers/embedded.ts';
import { mountSmallDisk, whyNoMounts } from '../../helpers/folder.ts';
import { openProfiles, sendTo } from '../../helpers/profile-client.ts';
import { drained } from '../../helpers/running-tributary.ts';
import { forwardTo, Receivers } from '../../helpers/webhook.ts';

const noMounts = await whyNoMounts();
if (noMounts !== undefined)
  console.warn(`SKIPPED, as nothing can be mounted here: tenants that share a small disk (${noMounts})`);

const DISK_MIB = 256;
const CALLERS = 6;
/** How long the stages may take for what was accepted, on a machine that others use. */
const WRITTEN_MS = 150_000;
/** How long the attack goes on at least, and after its first refusal. */
const [LEAST_MS, REFUSED_MS] = [6_000, 4_000];

describe.skipIf(noMounts !== undefined)('two tenants that share a small disk', () => {
  it('were both refused for good, once the profiles of people who are all new had been written: the one that sends them stops', async () => {
    const disk = await mountSmallDisk(DISK_MIB);
    onTestFinished(() => disk.remove());
    const folder = join(disk.path, 'data');
    mkdirSync(folder);
    const tributary = await startEmbedded(folder, {});
    onTestFinished(() => tributary.kill());
    const receivers = new Receivers();
    onTestFinished(() => receivers.close());
    const delivered: string[] = [];
    const hook = await receivers.open(({ body }, response) => {
      for (const { event } of body.deliveries ?? [body]) delivered.push(event.message_id);
      response.writeHead(204).end();
    });
    await forwardTo(tributary.owner, hook.url, 'Kept');
    const { url, producer } = tributary;
    const token = await openDevIssuer({ dataFolder: folder, devIssuerKey: '' }).mint('flood@example.com');
    const person = new Client(url, token);
    const { id: workspaceId } = await person.post<{ id: string }>('/workspaces', { name: 'Flood' });
    const owner = person.with({ workspaceId });
    const { key } = await owner.post<{ key: string }>('./event-keys', {
      name: 'k',
      environment: 'production',
    });
    const flooding = owner.with({ token: key });
    const { client: profiles } = await openProfiles(owner, workspaceId, sendTo(url));

    let hasEnded = false;
    const kept: string[] = [];
    const refused: unknown[] = [];
    const goOn = async () => {
      while (!hasEnded) {
        const message_id = randomUUID();
        const body = { event: 'Kept', user_id: 'u', message_id };
        const answer = await producer.call('POST', './events/track', body);
        if (answer.status === 202) kept.push(message_id);
        else refused.push(answer.body);
        if (refused.length === 0) await sleep(100);
        else hasEnded = true;
      }
    };
    const began = performance.now();
    let refusedAt = Number.POSITIVE_INFINITY;
    const answers = new Set<unknown>();
    const people: string[] = [];
    const flood = async () => {
      while (
        performance.now() < Math.max(began + LEAST_MS, Math.min(refusedAt, began + 60_000) + REFUSED_MS)
      ) {
        const batch = Array.from({ length: 70 }, () => ({
          type: 'identify',
          user_id: randomUUID(),
          traits: { about: randomBytes(1_900).toString('base64url') },
        }));
        const { status, body } = await flooding.call<{ quota?: string; reason?: string }>(
          'POST',
          './events/batch',
          { batch },
        );
        answers.add(body.quota ?? body.reason ?? status);
        if (status < 300) people.push(...batch.map(({ user_id }) => user_id));
        else {
          refusedAt = Math.min(refusedAt, performance.now());
          await sleep(50);
        }
      }
    };
    const found = async (from: number) =>
      (await profiles.search({ user_id: people.slice(from, from + 500) })).length;
    const goingOn = goOn();
    try {
      await Promise.all(Array.from({ length: CALLERS }, flood));
      const last = Math.max(0, people.length - 500);
      await eventually(
        () => found(last),
        (count) => count === people.length - last || refused.length > 0,
        WRITTEN_MS,
      );
    } finally {
      hasEnded = true;
      await goingOn;
      expect(refused).toEqual([]);
    }
    expect([...answers].sort()).toEqual([202, 'disk_share']);
    await drained(tributary);
    expect(delivered.toSorted()).toEqual(kept.toSorted());
    for (let at = 0; at < people.length; at += 500)
      expect(await found(at)).toBe(Math.min(500, people.length - at));
    expect(await tributary.stop()).toBe(0);
  }, 300_000);
});
