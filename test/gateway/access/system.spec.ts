import { join } from 'node:path';
import type { ProcessReport } from '@tributary/core';
import { openSqliteProcessBoard } from '@tributary/infra';
import { describe, expect, it } from 'vitest';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway({ env: { TRIBUTARY_OPERATORS: 'Ops@Example.com, second@example.com' } });

const report = (process: string, changes: Partial<ProcessReport> = {}): ProcessReport => ({
  process,
  role: 'processor',
  host: 'a',
  pid: 7,
  version: '0.2.0',
  commit: '0123456789ab',
  node: '24.0.0',
  started_at: Date.now() - 60_000,
  at: Date.now(),
  ready: true,
  checks: { catalog: 'caught up', redis: 'answers' },
  memory_bytes: 100_000_000,
  engines: [{ engine: 'redis', state: 'answers', version: '7.4.1' }],
  stages: [{ stage: 'deliver', topics: [{ topic: 'deliveries', partitions: [0, 2] }] }],
  ...changes,
});

interface System {
  readonly stages: readonly { readonly stage: string; readonly topics: readonly Topic[] }[];
  readonly processes: readonly { readonly process: string; readonly state: string }[];
}

interface Topic {
  readonly topic: string;
  readonly partitions: readonly { readonly partition: number; readonly process: string | null }[];
}

describe('the view of the installation', () => {
  it('is given only to the operators in the configuration, by a verified address', async () => {
    for (const email of ['ops@example.com', 'second@example.com']) {
      const operator = await test.signIn(email);
      expect((await operator.call('GET', '/system')).status).toBe(200);
      expect(await operator.ok('GET', '/me')).toMatchObject({ email, operator: true });
    }
    const owner = await test.openWorkspace('owner@example.com');
    const denied = { status: 403, body: { error: 'permission denied' } };
    expect(await owner.call('GET', '/system')).toEqual(expect.objectContaining(denied));
    expect(await owner.ok('GET', '/me')).toMatchObject({ email: 'owner@example.com', operator: false });
  });

  it('is given to no key, not even one of an operator', async () => {
    const operator = await test.openWorkspace('ops@example.com');
    const key = await operator.withApiKey('admin');
    expect((await key.call('GET', '/system')).status).toBe(403);
    expect((await key.call('GET', '/me')).status).toBe(403);
    expect((await operator.with({ token: 'nonsense' }).call('GET', '/system')).status).toBe(401);
  });

  it('has every stage with its partitions and owners, the processes, and the worst reported state of each engine', async () => {
    const [one, silent, other] = [
      report('0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a01'),
      report('0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a02', {
        at: Date.now() - 60_000,
        started_at: Date.now() - 90_000,
        version: '0.1.0',
      }),
      report('0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a03', {
        started_at: Date.now() - 30_000,
        ready: false,
        engines: [{ engine: 'redis', state: 'refuses writes: out of memory', version: null }],
        stages: [],
      }),
    ];
    const board = openSqliteProcessBoard({ folder: join(test.folder, 'health'), clock: Date.now });
    for (const each of [one, silent, other]) await board.report(each);
    await board.close();
    const operator = await test.signIn('ops@example.com');
    await expect.poll(async () => (await operator.ok<System>('GET', '/system')).processes.length).toBe(3);
    const system = await operator.ok<System>('GET', '/system');
    expect(system.processes.map(({ process, state }) => [process, state])).toEqual([
      [silent.process, 'silent'],
      [one.process, 'ready'],
      [other.process, 'not ready'],
    ]);
    expect(system).toMatchObject({
      versions: [{ version: '0.2.0', commit: '0123456789ab', processes: 2 }],
      engines: [
        {
          engine: 'redis',
          version: '7.4.1',
          state: 'refuses writes: out of memory',
          processes: [{ state: 'answers' }, { state: 'refuses writes: out of memory' }],
        },
      ],
    });
    const deliver = system.stages.find(({ stage }) => stage === 'deliver');
    const topic = deliver?.topics.find((each) => each.topic === 'deliveries');
    expect(topic?.partitions.map(({ process }) => process)).toEqual([one.process, null, one.process, null]);
    expect(system.stages.map(({ stage }) => stage)).toEqual(
      expect.arrayContaining(['validate', 'route', 'history']),
    );
  });
});
