import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { Client, eventually } from '../../helpers/client.ts';
import { startEmbedded } from '../../helpers/embedded.ts';
import { engines } from '../../helpers/engines.ts';
import { openProfiles, ProfileClient, sendTo } from '../../helpers/profile-client.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import { ServerProcess } from '../../helpers/server-process.ts';
import { startWebhook } from '../../helpers/webhook.ts';
import {
  answersOf,
  deliveriesOf,
  moveWithKills,
  SETTINGS,
  startOn,
  targetOf,
  volumeOf,
  workedOff,
} from './installation.ts';

const EVENTS = 60;
/** Of every ten events, one is repeated, two break the contract, and each of the two bad destinations gets one. */
const TENTH = EVENTS / 10;

describe.skipIf(engines() === undefined)('tributary move', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-move-'));
  const target = targetOf(folder);
  afterAll(async () => {
    await removePrefix(target.TRIBUTARY_PREFIX ?? '');
    rmSync(folder, { recursive: true, force: true });
  });
  const move = (...options: string[]) => ranHere(['move', ...options], target);

  it('moves all data of an installation through kills, and the cluster continues with it', async () => {
    const [good, dead, failing] = [await startWebhook(), await startWebhook(), await startWebhook()];
    onTestFinished(async () => {
      for (const webhook of [good, dead, failing]) await webhook.close();
    });
    dead.behave((_call, response) => response.writeHead(422).end());
    failing.behave((_call, response) => response.writeHead(503).end());

    // An installation with everything.
    const source = await startEmbedded(folder, SETTINGS);
    onTestFinished(() => source.kill());
    const { owner, producer, workspaceId } = source;
    const { client: people } = await openProfiles(owner, workspaceId, sendTo(source.url));
    const make = async (resource: string, body: object) =>
      (await owner.post<{ id: string }>(`./${resource}`, body)).id;
    const transformation_id = await make('event-transformations', {
      name: 'marks',
      source_code: 'function transform(event) { event.properties.marked = true; return event; }',
      test_input: { type: 'track', event: 'Ordered', properties: {} },
      test_output: { type: 'track', event: 'Ordered', properties: { marked: true } },
    });
    await make('event-contracts', {
      name: 'orders',
      event_type: 'track',
      event_name: 'Ordered',
      schema_definition: { properties: { total: { type: 'number' } }, required: ['total'] },
      enforcement_mode: 'block',
    });
    for (const [name, webhook] of Object.entries({ Ordered: good, Dead: dead, Failing: failing })) {
      const secret = `whsec_${randomBytes(32).toString('base64')}`;
      const settings = { url: webhook.url, secret };
      const destination_id = await make('destinations', { name, type: 'webhook', settings });
      await make('event-forwarding-rules', {
        name,
        destination_id,
        event_types: ['track'],
        event_names: [name],
        transformation_id,
      });
    }
    await make('destinations', { name: 'lines', type: 'ndjson', settings: { folder: 'lines' } });
    const names = ['Ordered', 'Ordered', 'Ordered', 'Ordered', 'Ordered', 'Ordered', 'Dead', 'Failing'];
    const batch = Array.from({ length: EVENTS }, (_, n) => ({
      type: 'track',
      event: names[n % 10] ?? 'Ordered',
      user_id: `user-${n % 7}`,
      message_id: `m-${n}`,
      // Deliveries refer to a large event, whether they wait or are dead.
      properties: n % 10 < 6 ? { total: n } : n % 10 < 8 ? { total: n, text: 'x'.repeat(2_000) } : {},
    }));
    const repeated = batch.filter((_, n) => n % 10 === 0);
    for (const some of [batch, repeated]) await producer.post('./events/batch', { batch: some });
    const identifies = Array.from({ length: 7 }, (_, n) => ({
      type: 'identify',
      user_id: `user-${n}`,
      message_id: `i-${n}`,
      traits: { email: `user-${n}@example.com`, n },
    }));
    await producer.post('./events/batch', { batch: identifies });
    await people.write(
      { email: 'written@example.com' },
      { upsert: { profile: { traits: { plan: 'gold' } } } },
    );
    await people.write({ email: 'merged@example.com' });
    await people.write({ user_id: 'merged' });
    const merged = await people.write({ email: 'merged@example.com', user_id: 'merged' });
    const erased = await people.write({ email: 'erased@example.com' });
    await people.delete({ email: ['erased@example.com'] });
    await workedOff(source);
    await deliveriesOf(owner, 'status=dead', TENTH);
    await deliveriesOf(owner, 'status=retrying', TENTH);
    const { id: replayId } = await owner.post<{ id: string }>('./replays', {
      since: new Date(Date.now() - 600_000).toISOString(),
      events_per_second: 400,
      event_names: ['Ordered'],
    });
    await eventually(
      () => owner.get<{ status: string }>(`./replays/${replayId}`),
      ({ status }) => status === 'finished',
    );
    await eventually(
      () => good.calls.length,
      (count) => count === 2 * 6 * TENTH,
    );
    await workedOff(source);
    const subjects = {
      searches: [
        { user_id: ['user-0', 'user-1', 'user-2', 'user-3', 'user-4', 'user-5', 'user-6'] },
        { email: ['written@example.com', 'merged@example.com', 'erased@example.com'] },
      ],
    };
    const volume = EVENTS - 2 * TENTH + identifies.length;
    expect(await volumeOf(owner)).toBe(volume);
    // Runs are counted some seconds after them, and those of the slow queue once more.
    const runs = async () =>
      (await owner.get<{ runs: number }>(`./event-transformations/${transformation_id}/metrics`)).runs;
    for (let counted = 0, now = await runs(); counted !== now || now < (8 + 6) * TENTH; now = await runs()) {
      counted = now;
      await sleep(5_000);
    }
    const before = await answersOf(owner, people, subjects);

    const inUse = await move();
    expect(inUse).toMatchObject({ code: 1 });
    expect(inUse.log).toContain('is used by another running Tributary');
    // In flight: nothing of it was worked on for sure.
    const late = Array.from({ length: EVENTS }, (_, n) => ({
      type: 'track',
      event: 'Late',
      user_id: `late-${n}`,
      message_id: `late-${n}`,
    }));
    await producer.post('./events/batch', { batch: late });
    await source.kill();

    const checked = await move('--check');
    expect(checked, checked.output + checked.log).toMatchObject({ code: 0 });
    expect(checked.output).toContain('nothing stands against the move');
    expect(checked.output).toContain('lines append to files below');
    const refusals: string[] = [];
    const moments = [
      /copied +dedupe claims/,
      /copied +profiles/,
      /copied +events\.accepted/,
      /copied +catalog/,
    ];
    const { output, killed } = await moveWithKills(target, moments, async () => {
      if (refusals.length > 0) return;
      const gateway = new ServerProcess(['gateway'], target);
      onTestFinished(() => gateway.kill());
      expect(await gateway.ended()).toBe(1);
      refusals.push(gateway.log);
    });
    console.log(`the move was killed ${killed} times\n${output}`);
    expect(refusals.join('')).toContain('is being filled by `tributary move`, which did not finish');
    expect(output).toContain('is moved: start gateways and processors');

    const again = await move();
    expect(again, again.log).toMatchObject({ code: 0 });
    expect(again.output).toContain('was moved to Kafka at');
    const here = new ServerProcess(['dev'], { ...SETTINGS, TRIBUTARY_DATA_DIR: folder });
    onTestFinished(() => here.kill());
    expect(await here.ended()).toBe(1);
    expect(here.log).toContain('start gateways and processors there');

    // The cluster answers the same.
    const cluster = await startOn(target);
    onTestFinished(() => cluster.kill());
    const there = new Client(cluster.url, cluster.idToken, workspaceId);
    const producerThere = there.with({ token: source.writeKey });
    const peopleThere = new ProfileClient(sendTo(cluster.url), people.orgId, people.headers);
    await eventually(
      () => volumeOf(there, 'Late'),
      (count) => count === EVENTS,
    );
    await workedOff(cluster);
    const after = await answersOf(there, peopleThere, subjects);
    expect(withoutLate(after)).toEqual(withoutLate(before));
    expect(lastUse(after)).toBeGreaterThanOrEqual(lastUse(before));
    // Events that every stage had done stay behind.
    await expect(there.get('./events/m-0')).rejects.toThrow('answered 404');
    expect(await there.get('./events/late-0')).toMatchObject({ accepted: { position: expect.anything() } });

    // Nothing that was sent before counts again, and the retries and the dead go on.
    const goodBefore = good.calls.length;
    for (const some of [batch, identifies, late]) await producerThere.post('./events/batch', { batch: some });
    await workedOff(cluster);
    expect(await volumeOf(there)).toBe(volume + EVENTS);
    const deadBefore = dead.deliveries();
    failing.behave(undefined);
    dead.behave(undefined);
    await deliveriesOf(there, 'status=retrying', 0);
    expect(await there.post('./deliveries/redrive', {})).toMatchObject({ redriven: TENTH });
    await eventually(
      () => dead.deliveries().slice(deadBefore.length),
      (calls) => calls.length === TENTH,
    );
    const idsOf = (calls: readonly { readonly id: string }[]) =>
      [...new Set(calls.map(({ id }) => id))].sort();
    expect(idsOf(dead.deliveries())).toEqual(idsOf(deadBefore));
    expect(new Set(failing.deliveries().map(({ event }) => event.message_id)).size).toBe(TENTH);
    expect(good.calls).toHaveLength(goodBefore);

    // The id of a rejected event is free for its correction, and people are who they were.
    const corrected = { type: 'track', event: 'Ordered', user_id: 'user-8', message_id: 'm-8' };
    await producerThere.post('./events/batch', { batch: [{ ...corrected, properties: { total: 1 } }] });
    await eventually(
      () => volumeOf(there),
      (count) => count === volume + EVENTS + 1,
    );
    const [found] = await peopleThere.search({ user_id: ['merged'] });
    expect(found?.ucid).toBe(merged.ucid);
    const changed = await peopleThere.write(
      { email: 'merged@example.com' },
      { upsert: { profile: { traits: { plan: 'new' } } } },
    );
    expect(changed.ucid).toBe(merged.ucid);
    const fresh = await peopleThere.write({ email: 'erased@example.com' });
    expect(fresh.ucid).not.toBe(erased.ucid);
    expect(existsSync(join(folder, 'moved.json'))).toBe(true);
    expect(JSON.parse(readFileSync(join(folder, 'moved.json'), 'utf8'))).toMatchObject({
      to: expect.stringContaining(target.TRIBUTARY_PREFIX ?? ''),
    });
  }, 600_000);

  it('does not continue with the copy of a folder that was used since', async () => {
    const used = mkdtempSync(join(tmpdir(), 'tributary-move-used-'));
    const elsewhere = targetOf(used);
    onTestFinished(async () => {
      await removePrefix(elsewhere.TRIBUTARY_PREFIX ?? '');
      rmSync(used, { recursive: true, force: true });
    });
    const run = async () => {
      const server = await startEmbedded(used, SETTINGS);
      await server.stop();
    };
    await run();
    const killed = new ServerProcess(['move'], elsewhere);
    await killed.printed(/copied +dedupe claims/);
    await killed.kill();
    expect(await ranHere(['move', '--check'], elsewhere)).toMatchObject({ code: 0 });
    await run();
    const refused = await ranHere(['move'], elsewhere);
    expect(refused).toMatchObject({ code: 1 });
    expect(refused.output).toContain(`obstacle a process has run on ${used} since the move was begun`);
  });
});

/** Without the events that were sent after the first answers, which used their key, and how long traces took. */
function withoutLate(answers: Readonly<Record<string, unknown>>): unknown {
  return JSON.parse(
    JSON.stringify(answers, (name, value: unknown) => {
      if (name === 'last_used_at' || name === 'looked') return undefined;
      if (!name.startsWith('./event-volume') || !Array.isArray(value)) return value;
      return value.filter(({ event_name }: { readonly event_name?: string }) => event_name !== 'Late');
    }),
  );
}

/** The last use of any write key, epoch ms. */
function lastUse(answers: Readonly<Record<string, unknown>>): number {
  const keys = answers['./event-keys'] as readonly { readonly last_used_at: string | null }[];
  return Math.max(...keys.map(({ last_used_at }) => Date.parse(last_used_at ?? '1970-01-01')));
}
