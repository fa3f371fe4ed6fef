import { setTimeout as sleep } from 'node:timers/promises';
import { openDevIssuer } from '@tributary/infra';
import { type Client, eventually } from '../../helpers/client.ts';
import { adminOf, clusterEnvironment, readyAt } from '../../helpers/cluster.ts';
import { engines, freshPrefix } from '../../helpers/engines.ts';
import type { ProfileClient } from '../../helpers/profile-client.ts';
import { scrape, waitingNow } from '../../helpers/running-tributary.ts';
import { ServerProcess } from '../../helpers/server-process.ts';

export const PARTITIONS = '2';

/** Settings that both the data folder and the cluster are run with. */
export const SETTINGS = {
  TRIBUTARY_PARTITIONS: PARTITIONS,
  TRIBUTARY_RETRY_SCHEDULE: '10s',
  TRIBUTARY_EGRESS_ALLOW: '127.0.0.0/8',
} as const;

/** The environment of a move to the engines of the run, and of the cluster afterwards. */
export function targetOf(folder: string): Readonly<Record<string, string>> {
  if (engines() === undefined) throw new Error('there are no engines to move to');
  return { ...clusterEnvironment(freshPrefix()), ...SETTINGS, TRIBUTARY_DATA_DIR: folder };
}

export interface RunningCluster {
  readonly url: string;
  /** An ID token of the person that `tributary dev` signs in. */
  readonly idToken: string;
  metrics(): Promise<string>;
  kill(): Promise<void>;
}

/** A gateway and a processor. */
export async function startOn(environment: Readonly<Record<string, string>>): Promise<RunningCluster> {
  const gateway = new ServerProcess(['gateway'], environment);
  const processor = new ServerProcess(['processor'], environment);
  const both = [gateway, processor];
  const kill = async () => {
    await Promise.all(both.map((one) => one.kill()));
  };
  try {
    const [url, adminUrls] = await Promise.all([readyAt(gateway), Promise.all(both.map(adminOf))]);
    const dataFolder = environment.TRIBUTARY_DATA_DIR ?? '';
    const idToken = await openDevIssuer({ dataFolder, devIssuerKey: '' }).mint('dev@tributary.localhost');
    return {
      url,
      idToken,
      metrics: async () => (await Promise.all(adminUrls.map(scrape))).join('\n'),
      kill,
    };
  } catch (error) {
    await kill();
    throw error;
  }
}

/** When to kill a move: once it has printed this, or after so many ms. */
export type Kill = RegExp | number;

/** Runs `tributary move` until it ends by itself, killing it first at each of these moments. Returns its last output. */
export async function moveWithKills(
  environment: Readonly<Record<string, string>>,
  kills: readonly Kill[],
  afterKill: () => Promise<void> = async () => {},
): Promise<{ readonly output: string; readonly killed: number }> {
  let killed = 0;
  for (const kill of kills) {
    const move = new ServerProcess(['move'], environment);
    const moment = typeof kill === 'number' ? sleep(kill) : move.printed(kill);
    const ended = await Promise.race([move.ended(), moment.then(() => 'reached' as const)]);
    await move.kill();
    if (ended === 0) return { output: move.output, killed };
    if (ended !== 'reached') throw new Error(`the move ended with ${ended}: ${move.output}\n${move.log}`);
    killed++;
    await afterKill();
  }
  const move = new ServerProcess(['move'], environment);
  const code = await move.ended();
  if (code !== 0) throw new Error(`the move ended with ${code}: ${move.output}\n${move.log}`);
  return { output: move.output, killed };
}

/** All that the API answers about an installation, by path. Answers that change by themselves are left out. */
export async function answersOf(
  owner: Client,
  profiles: ProfileClient,
  subjects: {
    readonly searches: readonly Readonly<Record<string, readonly string[]>>[];
  },
): Promise<Readonly<Record<string, unknown>>> {
  const answers: Record<string, unknown> = {};
  const ask = async <T>(path: string): Promise<T> => {
    const answer = await owner.get<T>(path);
    answers[path] = answer;
    return answer;
  };
  for (const list of [
    '/organizations',
    '/workspaces',
    './members',
    './sources',
    './event-keys',
    './api-keys',
  ])
    await ask(list);
  for (const { id } of (answers['/organizations'] ?? []) as readonly { readonly id: string }[])
    for (const part of ['', '/members', '/client-keys', '/profile-settings', '/audit-log?limit=100'])
      await ask(`/organizations/${id}${part}`);
  await ask('./audit-log?limit=100');
  await ask('./event-volume?hours=48');
  await ask('./event-volume?hours=48&environment=development');
  for (const { id } of await ask<readonly { readonly id: string }[]>('./event-contracts')) {
    await ask(`./event-contracts/${id}`);
    await ask(`./event-contracts/${id}/versions`);
    await ask(`./event-contracts/${id}/violations?limit=100`);
    await ask(`./event-contracts/${id}/violations/hourly`);
  }
  for (const { id } of await ask<readonly { readonly id: string }[]>('./event-transformations')) {
    await ask(`./event-transformations/${id}`);
    await ask(`./event-transformations/${id}/versions`);
    await ask(`./event-transformations/${id}/metrics`);
  }
  for (const { id } of await ask<readonly { readonly id: string }[]>('./destinations'))
    await ask(`./destinations/${id}`);
  await ask('./event-forwarding-rules');
  for (const { id } of await ask<readonly { readonly id: string }[]>('./replays'))
    await ask(`./replays/${id}`);
  for (const status of ['dead', 'delivered'])
    for (const { id } of await ask<readonly { readonly id: string }[]>(
      `./deliveries?status=${status}&limit=100`,
    ))
      await ask(`./deliveries/${id}`);
  const retrying = await owner.get<readonly { readonly id: string }[]>(
    './deliveries?status=retrying&limit=100',
  );
  // Its attempts go on; which deliveries wait is the same.
  answers.retrying = retrying.map(({ id }) => id).sort();
  for (const search of subjects.searches)
    answers[`profiles ${JSON.stringify(search)}`] = await profiles.search(search, ['eu', 'us']);
  return answers;
}

/** Resolves once no stage has a lag but the one that waits for retries. */
export async function workedOff(server: { metrics(): Promise<string> }): Promise<void> {
  await eventually(
    async () => (await waitingNow(() => server.metrics())).filter((one) => !one.includes('deliver.retry')),
    (left) => left.length === 0,
    120_000,
  );
}

/** The events counted under a name in the last two days. */
export async function volumeOf(owner: Client, eventName?: string): Promise<number> {
  const rows =
    await owner.get<readonly { event_name: string; event_count: number }[]>('./event-volume?hours=48');
  return rows
    .filter(({ event_name }) => eventName === undefined || event_name === eventName)
    .reduce((sum, { event_count }) => sum + event_count, 0);
}

/** Waits until the list has this many deliveries, and returns their ids. */
export async function deliveriesOf(owner: Client, query: string, count: number): Promise<readonly string[]> {
  const found = await eventually(
    () => owner.get<readonly { readonly id: string }[]>(`./deliveries?limit=100&${query}`),
    (list) => list.length === count,
  );
  return found.map(({ id }) => id);
}
