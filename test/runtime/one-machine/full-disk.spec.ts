import { rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Client, eventually } from '../../helpers/client.ts';
import { mountSmallDisk, whyNoMounts } from '../../helpers/folder.ts';
import { entriesOf } from '../../helpers/log-of.ts';
import { admin, clientsOf, type Initialized, serveEnvironment, startServing } from '../../helpers/serve.ts';

const noMounts = await whyNoMounts();
if (noMounts !== undefined)
  console.warn(`SKIPPED, as nothing can be mounted here: a disk that is filled (${noMounts})`);

const MIB = 2 ** 20;
const DISK_MIB = process.env.TRIBUTARY_TEST_LONG === undefined ? 160 : 1_024;
const FULL_WITHIN_MS = 180_000;
const ENDED_WITHIN_MS = 3 * FULL_WITHIN_MS;

const PAUSE_MS = 100;
/** The pause while the reserve is near: the space is read twice a second, and must not fall through the reserve in between. */
const NEAR_PAUSE_MS = 300;

const freeBytes = (path: string) => {
  const { bavail, bsize } = statfsSync(path);
  return bavail * bsize;
};

const statusOf = async (url: string) => (await fetch(`${url}/readyz`)).status;

/** Sends batches until `stop`; collects the ids of what was answered 202, and the refusals. */
class Producer {
  readonly taken = new Set<string>();
  readonly refusals: { readonly status: number; readonly retryAfter: unknown }[] = [];
  isStopped = false;
  readonly #ended: Promise<void>;

  constructor(client: Client, pauseMs: () => number) {
    this.#ended = this.#send(client, pauseMs);
  }

  async stop(): Promise<void> {
    this.isStopped = true;
    await this.#ended;
  }

  async #send(client: Client, pauseMs: () => number): Promise<void> {
    const padding = 'x'.repeat(2_000);
    for (let round = 0; !this.isStopped; round++) {
      const batch = Array.from({ length: 50 }, () => ({
        type: 'track',
        event: 'Filled',
        user_id: `u${round % 100}`,
        message_id: crypto.randomUUID(),
        properties: { padding },
      }));
      const { status, headers } = await client.call('POST', './events/batch', { batch });
      if (status === 202) for (const { message_id } of batch) this.taken.add(message_id);
      else this.refusals.push({ status, retryAfter: headers['retry-after'] });
      await sleep(pauseMs());
    }
  }
}

/** Fills a disk by events and by another program, frees it, and checks that everything that was answered 202 is there. */
async function fillAndFree(reserveMib: number): Promise<void> {
  const disk = await mountSmallDisk(DISK_MIB);
  onTestFinished(() => disk.remove());
  const filler = join(disk.path, 'filler');
  writeFileSync(filler, Buffer.alloc((DISK_MIB / 2) * MIB, 1));
  const environment = serveEnvironment(join(disk.path, 'data'), {
    TRIBUTARY_DISK_RESERVE: `${reserveMib}MiB`,
  });
  const { server, url, adminUrl } = await startServing(environment);
  onTestFinished(() => server.kill());
  const initialized = await admin<Initialized>(environment, 'init', '--no-owner');
  const { operator, producer } = await clientsOf(url, initialized);
  expect(await statusOf(url)).toBe(200);

  const isNear = () => freeBytes(disk.path) < 2 * reserveMib * MIB;
  let wasReserveReached = reserveMib === 0;
  const pauseMs = () => (!wasReserveReached && isNear() ? NEAR_PAUSE_MS : PAUSE_MS);
  const producers = Array.from({ length: 4 }, () => new Producer(producer, pauseMs));
  const refusals = () => producers.flatMap((each) => each.refusals);
  // Before the server ends: a test that fails must not leave producers that fail as well.
  onTestFinished(async () => {
    await Promise.allSettled(producers.map((each) => each.stop()));
  });
  const countTaken = () => producers.reduce((sum, { taken }) => sum + taken.size, 0);
  if (reserveMib > 0) {
    await eventually(
      () => freeBytes(disk.path),
      (free) => free < reserveMib * MIB,
      FULL_WITHIN_MS,
    );
    wasReserveReached = true;
  }
  await eventually(refusals, (all) => all.length >= 10, FULL_WITHIN_MS);
  // Another program takes what was left for the stages.
  const rest = join(disk.path, 'rest');
  try {
    writeFileSync(rest, Buffer.alloc(DISK_MIB * MIB, 1));
  } catch (error) {
    expect(error).toMatchObject({ code: 'ENOSPC' });
  }
  await sleep(3_000);
  expect((await operator.call('GET', './sources')).status).toBe(200);
  // 429 at first, while the workspace that uses most of the disk is refused, then 503.
  for (const { status, retryAfter } of refusals()) {
    expect([429, 503]).toContain(status);
    expect(Number(retryAfter)).toBeGreaterThanOrEqual(1);
  }
  if (reserveMib > 0) {
    // Between two looks at the disk it may fall through more than one level.
    expect(server.log).toMatch(/nearly full: .*events are answered with 503/);
    // A balancer must not take away the process that frees space.
    expect([await statusOf(url), await statusOf(adminUrl)]).toEqual([200, 200]);
  }
  const metrics = await (await fetch(`${adminUrl}/metrics`)).text();
  const free = Number(/^tributary_data_folder_free_bytes (\S+)$/m.exec(metrics)?.[1]);
  expect(free).toBeLessThan(MIB);
  expect(metrics).toMatch(new RegExp(`^tributary_data_folder_size_bytes ${DISK_MIB * MIB}$`, 'm'));

  const before = countTaken();
  for (const file of [rest, filler]) rmSync(file);
  await eventually(
    () => statusOf(url),
    (status) => status === 200,
  );
  await eventually(countTaken, (sum) => sum > before);
  await Promise.all(producers.map((each) => each.stop()));
  const taken = new Set(producers.flatMap((each) => [...each.taken]));

  // Each one went through the stages: accepted once.
  const accepted = async () => {
    const entries = await entriesOf({ environment }, 'events.accepted');
    return entries.map(({ value }) => (JSON.parse(value) as { message_id: string }).message_id);
  };
  const ids = await eventually(
    accepted,
    (all) => {
      const known = new Set(all);
      return [...taken].every((id) => known.has(id));
    },
    120_000,
  );
  expect(new Set(ids).size).toBe(ids.length);
  console.log(
    `${taken.size} events were answered 202 and are there; ${refusals().length} batches were refused`,
  );
  expect(await server.stop()).toBe(0);
}

describe('a disk that fills up', () => {
  it.skipIf(noMounts !== undefined)(
    'refuses events before writes fail, loses nothing answered 202, and is back without a restart',
    () => fillAndFree(DISK_MIB / 8),
    ENDED_WITHIN_MS,
  );

  it.runIf(noMounts === undefined && process.env.TRIBUTARY_TEST_LONG !== undefined)(
    'without a reserve: writes fail, nothing that was answered 202 is lost, and it is back without a restart',
    () => fillAndFree(0),
    ENDED_WITHIN_MS,
  );
});
