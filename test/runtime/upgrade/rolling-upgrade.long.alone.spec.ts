// Runs alone in the long form: four processes of two releases replace each other under load.

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { TOPIC } from '@tributary/core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { readCommitted } from '../../chaos/java-reader.ts';
import { freePort } from '../../engines/engine-process.ts';
import { Client, eventually } from '../../helpers/client.ts';
import { adminOf, clusterEnvironment, openWorkspace, readyAt } from '../../helpers/cluster.ts';
import { engines, freshPrefix } from '../../helpers/engines.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import { drained, scrape } from '../../helpers/running-tributary.ts';
import { ServerProcess } from '../../helpers/server-process.ts';
import { forwardTo, startWebhook, type Webhook } from '../../helpers/webhook.ts';

/** The release before this one, by its last commit; a clone may lack tags. */
const PREVIOUS = { version: '0.2.0', commit: '55013bb3' } as const;

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

/**
 * The main file of the release before this one, from the history of this clone, with its packages. It is kept in the
 * cache folder from one run to the next. Undefined, with a warning, in a clone without that history.
 */
function previousRelease(): string | undefined {
  const cache = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'tributary');
  const folder = join(cache, `release-${PREVIOUS.version}-${PREVIOUS.commit}`);
  if (!existsSync(folder)) {
    try {
      execFileSync('git', ['cat-file', '-e', `${PREVIOUS.commit}^{commit}`], { cwd: ROOT, stdio: 'ignore' });
    } catch {
      console.warn(
        `this clone has no commit ${PREVIOUS.commit}: upgrades from ${PREVIOUS.version} are not tested`,
      );
      return undefined;
    }
    const unfinished = `${folder}.new`;
    rmSync(unfinished, { recursive: true, force: true });
    mkdirSync(unfinished, { recursive: true });
    const archive = execFileSync('git', ['archive', PREVIOUS.commit], { cwd: ROOT, maxBuffer: 2 ** 30 });
    execFileSync('tar', ['-x', '-C', unfinished], { input: archive });
    execFileSync('npm', ['ci', '--omit=dev', '--no-audit', '--no-fund'], { cwd: unfinished, stdio: 'pipe' });
    renameSync(unfinished, folder);
  }
  return join(folder, 'infra/runtime/main.ts');
}

const previous = previousRelease();
type Release = 'previous' | 'present';

/** Deliveries in flight at the end of a process may be made again; positions are committed twice a second. */
const IN_HAND_MS = 2_500;
const SENDERS = 4;

/** Producers that send each event until it is taken, and what became of their requests. */
class Producers {
  readonly acknowledged = new Set<string>();
  /** By status, `503` included; `connection` where there was no answer. */
  readonly answers = new Map<string, number>();
  readonly #targets: () => readonly Client[];
  readonly #sending: Promise<unknown>;
  #next = 0;
  #isStopped = false;

  constructor(targets: () => readonly Client[]) {
    this.#targets = targets;
    this.#sending = Promise.all(Array.from({ length: SENDERS }, () => this.#send()));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#sending;
  }

  async #send(): Promise<void> {
    while (!this.#isStopped) {
      const n = this.#next++;
      const body = { event: 'Paid', message_id: `m${n}`, user_id: `u${n % 40}`, properties: { n } };
      for (let tries = n; !this.acknowledged.has(body.message_id); tries++) {
        const targets = this.#targets();
        const answer = await targets[tries % targets.length]
          ?.call('POST', './events/track', body)
          .then(({ status }) => String(status))
          .catch(() => 'connection');
        if (answer === undefined) continue;
        this.answers.set(answer, (this.answers.get(answer) ?? 0) + 1);
        if (answer === '202') this.acknowledged.add(body.message_id);
        else await sleep(50);
      }
      await sleep(40);
    }
  }
}

/** Each acknowledged event was delivered, and more than once only near the end of a process. */
function expectDelivered(webhook: Webhook, acknowledged: ReadonlySet<string>, ends: readonly number[]): void {
  const arrivals = new Map<string, number[]>();
  for (const { at, body } of webhook.calls)
    for (const { event } of body.deliveries ?? [body])
      arrivals.set(event.message_id, [...(arrivals.get(event.message_id) ?? []), at]);
  expect([...acknowledged].filter((id) => !arrivals.has(id))).toEqual([]);
  const unexcused = [...arrivals].filter(
    ([, [first = 0, ...again]]) =>
      again.length > 0 && !ends.some((end) => Math.abs(end - first) < IN_HAND_MS),
  );
  expect(unexcused).toEqual([]);
}

async function counted(owner: Client): Promise<number> {
  const volume = await owner.ok<readonly { event_count: number }[]>('GET', './event-volume?hours=24');
  return volume.reduce((sum, { event_count }) => sum + event_count, 0);
}

/** Starts a command of a release, which is killed with the test if that fails. */
function run(
  release: Release,
  command: string,
  environment: Readonly<Record<string, string>>,
): ServerProcess {
  const server = new ServerProcess([command], environment, release === 'previous' ? previous : undefined);
  onTestFinished(() => server.kill());
  return server;
}

describe.skipIf(previous === undefined)('an upgrade from the release before, and the way back', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let webhook: Webhook;
  beforeAll(async () => {
    folder = await temporaryFolder();
  });
  afterAll(() => folder.remove());
  // Both installations have events of the same ids.
  beforeEach(async () => {
    webhook = await startWebhook();
  });
  afterEach(() => webhook.close());

  it('on one machine: each event is counted once, whichever release took it', {
    timeout: 600_000,
  }, async () => {
    const port = String(await freePort());
    const url = `http://127.0.0.1:${port}`;
    const environment = {
      TRIBUTARY_DATA_DIR: `${folder.path}/data`,
      TRIBUTARY_EGRESS_ALLOW: '127.0.0.0/8',
      LOG_LEVEL: 'warn',
      PORT: port,
    };
    const ends: number[] = [];
    const start = async (release: Release) => {
      const server = run(release, 'dev', environment);
      await server.printed(/Stop with Ctrl-C/);
      return server;
    };
    let server = await start('previous');
    const found = (pattern: RegExp) => pattern.exec(server.output)?.[1] ?? '';
    const ownerOf = () => new Client(url, found(/ID token\s+(\S+)/), found(/workspace\s+(\S+)/));
    await forwardTo(ownerOf(), webhook.url, 'Paid');
    const wanted = { name: 'k', environment: 'production' };
    const { key } = await ownerOf().post<{ key: string }>('./event-keys', wanted);
    const producers = new Producers(() => [ownerOf().with({ token: key })]);
    for (const release of ['present', 'previous', 'present'] as const) {
      ends.push(Date.now());
      if (release === 'previous') await server.kill();
      else expect(await server.stop()).toBe(0);
      server = await start(release);
      const before = webhook.calls.length;
      await eventually(() => webhook.calls.length > before + 100, Boolean, 120_000);
    }
    const output = await ranHere(['upgrade'], environment);
    expect(output).toMatchObject({ code: 0, output: expect.stringMatching(/^this is the installation /) });
    await producers.stop();
    await eventually(
      () => counted(ownerOf()),
      (count) => count === producers.acknowledged.size,
      120_000,
    );
    await drained({ metrics: () => scrape(found(/admin port\s+(\S+)/)) }, 120_000);
    console.log(`one machine: ${producers.acknowledged.size} events`, Object.fromEntries(producers.answers));
    expect(
      [...producers.answers.keys()].filter((one) => !['202', '503', 'connection'].includes(one)),
    ).toEqual([]);
    expectDelivered(webhook, producers.acknowledged, ends);
    await server.stop();
  });

  it.skipIf(engines() === undefined)(
    'on a cluster: processes of both releases work side by side',
    { timeout: 900_000 },
    async () => {
      const prefix = freshPrefix();
      // Without the registry: it refuses the schemas of 0.2.0, which has fewer types of events, after those of this release.
      const { SCHEMA_REGISTRY_URL: _, ...withoutRegistry } = clusterEnvironment(prefix);
      const environment = {
        ...withoutRegistry,
        TRIBUTARY_DATA_DIR: `${folder.path}/cluster`,
        TRIBUTARY_PARTITIONS: '3',
      };
      const ends: number[] = [];
      const start = async (role: 'gateway' | 'processor', release: Release, port = '0') => {
        const server = run(release, role, { ...environment, PORT: port });
        await readyAt(server);
        return server;
      };
      const ports = [String(await freePort()), String(await freePort())];
      const gateways: ServerProcess[] = [];
      for (const port of ports) gateways.push(await start('gateway', 'previous', port));
      const processors = [await start('processor', 'previous'), await start('processor', 'previous')];
      const urls = ports.map((port) => `http://127.0.0.1:${port}`);
      const dataFolder = environment.TRIBUTARY_DATA_DIR;
      const { owner, producer } = await openWorkspace(urls[0] ?? '', dataFolder, 'Upgraded');
      await forwardTo(owner, webhook.url, 'Paid');
      const calls = webhook.calls.length;
      const clients = urls.map((one) => producer.at(one));
      const producers = new Producers(() => clients);
      const moves = async (release: Release) => {
        for (const [n, port] of ports.entries()) {
          ends.push(Date.now());
          if (n === 0) expect(await gateways[n]?.stop()).toBe(0);
          else await gateways[n]?.kill();
          gateways[n] = await start('gateway', release, port);
        }
        for (const n of processors.keys()) {
          ends.push(Date.now());
          if (n === 0) expect(await processors[n]?.stop()).toBe(0);
          else await processors[n]?.kill();
          processors[n] = await start('processor', release);
          const before = webhook.calls.length;
          await eventually(() => webhook.calls.length > before + 100, Boolean, 150_000);
        }
      };
      for (const release of ['present', 'previous', 'present'] as const) await moves(release);
      const output = await ranHere(['upgrade'], environment);
      expect(output).toMatchObject({ code: 0, output: expect.stringMatching(/^this is the installation /) });
      await producers.stop();
      const admin = await adminOf(processors[0] ?? (await start('processor', 'present')));
      await drained({ metrics: () => scrape(admin) }, 180_000);
      console.log(`cluster: ${producers.acknowledged.size} events`, Object.fromEntries(producers.answers));
      const brokers = engines()?.kafkaBrokers ?? '';
      const ids = await readCommitted({ brokers, topic: `${prefix}${TOPIC.accepted}` }, ({ headers }) =>
        headers.get('message-id'),
      );
      expect(new Set(ids).size).toBe(ids.length);
      expect(await counted(owner)).toBe(producers.acknowledged.size);
      expect(
        [...producers.answers.keys()].filter((one) => !['202', '503', 'connection'].includes(one)),
      ).toEqual([]);
      expect(webhook.calls.length).toBeGreaterThan(calls);
      expectDelivered(webhook, producers.acknowledged, ends);
      await Promise.all([...gateways, ...processors].map((one) => one.stop()));
      await removePrefix(prefix);
    },
  );
});
