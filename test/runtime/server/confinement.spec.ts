import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createConnectors } from '@tributary/connectors';
import { confinedCommand, NO_LOGGER, NO_METRICS } from '@tributary/core';
import { confinementOf, openIsolatedVmSandbox } from '@tributary/infra';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { HONEST, input, outcomes, program } from '../../conformance/sandbox/suite/transformations.ts';
import { temporaryFolder } from '../../helpers/folder.ts';

const ATTACKS = fileURLToPath(new URL('./confined/attacks.ts', import.meta.url));
const HERE = dirname(ATTACKS);
const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;
const isLinux = process.platform === 'linux';
const confinement = confinementOf({ sandboxUid: NOBODY });

/** The confinement of code that broke out of Node: the user and the limits, without the permission model. */
const NATIVE = `
  const { readFileSync, writeFileSync } = require('node:fs');
  const [secret, host, filled] = process.argv.slice(1);
  process.on('SIGXFSZ', () => {});
  const attempts = {
    read: () => readFileSync(secret),
    environment: () => readFileSync('/proc/' + host + '/environ'),
    memory: () => readFileSync('/proc/' + host + '/mem'),
    signal: () => process.kill(Number(host), 0),
    fill: () => writeFileSync(filled, 'x'.repeat(100)),
  };
  const found = Object.entries(attempts).map(([name, attempt]) => {
    try { attempt(); return [name, 'done']; } catch (error) { return [name, error.code]; }
  });
  console.log(JSON.stringify(Object.fromEntries(found)));
`;

describe('code of users', () => {
  let parent: Awaited<ReturnType<typeof temporaryFolder>>;
  let folder = '';
  let secret = '';
  beforeAll(async () => {
    parent = await temporaryFolder();
    chmodSync(parent.path, 0o755);
    folder = join(parent.path, 'data');
    secret = join(folder, 'secret-keys.json');
    mkdirSync(folder, { mode: 0o700 });
    writeFileSync(secret, '"k:secret"', { mode: 0o600 });
  });
  afterAll(() => parent.remove());

  function attacked(user: { uid?: number; gid?: number }, wrapper: readonly string[]) {
    const args = [secret, String(process.pid), folder, HERE];
    const attack = { node: process.execPath, flags: [], script: ATTACKS, folder: HERE, args };
    const [command, all] = confinedCommand(attack, wrapper);
    const { stdout, stderr } = spawnSync(command, [...all], { env: {}, cwd: '/', encoding: 'utf8', ...user });
    expect(stderr).not.toContain('Error');
    return JSON.parse(stdout) as Readonly<Record<string, string>>;
  }

  it('read keys, files and the host’s environment as the user of the host: Node’s permissions prevent it', () => {
    const { 'signal the host': signal, ...others } = attacked({}, confinement.wrapper);
    expect(Object.entries(others).filter(([, outcome]) => outcome !== 'ERR_ACCESS_DENIED')).toEqual([]);
    expect(Object.keys(others).length).toBeGreaterThan(12);
    // Only the separate user prevents this one.
    expect(signal).toBe('done');
  });

  it.skipIf(!isRoot)('sent signals to a host that runs as root, while the code runs as another user', () => {
    const found = attacked({ uid: NOBODY, gid: NOBODY }, confinement.wrapper);
    expect(found['signal the host']).toBe('EPERM');
    expect(found['read a key of the data folder']).toBe('ERR_ACCESS_DENIED');
  });

  it.skipIf(!isRoot || !isLinux)(
    'could read the data folder and the host or fill the disk after an escape from Node',
    () => {
      const [command = process.execPath, ...args] = [...confinement.wrapper, process.execPath];
      const open = join(parent.path, 'open');
      mkdirSync(open);
      chmodSync(open, 0o777);
      const native = ['-e', NATIVE, secret, String(process.pid), join(open, 'filled')];
      const user = { uid: NOBODY, gid: NOBODY };
      const run = spawnSync(command, [...args, ...native], { env: {}, cwd: '/', encoding: 'utf8', ...user });
      expect(JSON.parse(run.stdout)).toEqual({
        read: 'EACCES',
        environment: 'EACCES',
        memory: 'EACCES',
        signal: 'EPERM',
        ...(confinement.wrapper.some((arg) => arg.startsWith('--fsize'))
          ? { fill: 'EFBIG' }
          : { fill: 'done' }),
      });
    },
  );

  describe.skipIf(!isLinux)('in its own processes', () => {
    /** Checks the kernel's view of a confined process. */
    function expectConfined(pid: number): void {
      const status = readFileSync(`/proc/${pid}/status`, 'utf8');
      if (isRoot) {
        for (const field of ['Uid', 'Gid'])
          expect(status).toMatch(new RegExp(`^${field}:(\\s+${NOBODY}){4}$`, 'm'));
        expect(status).toMatch(/^Groups:\s*$/m);
        expect(status).toMatch(/^CapEff:\s+0+$/m);
      }
      if (confinement.wrapper.length > 0) {
        expect(status).toMatch(/^NoNewPrivs:\s+1$/m);
        const limits = readFileSync(`/proc/${pid}/limits`, 'utf8');
        expect(limits).toMatch(/^Max file size\s+0\s+0\s/m);
        expect(limits).toMatch(/^Max core file size\s+0\s+0\s/m);
        expect(limits).toMatch(/^Max open files\s+256\s+256\s/m);
      }
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
      expect(command).toContain('--permission');
      const readable = command.flatMap((arg) => /^--allow-fs-read=(.*)$/.exec(arg)?.[1] ?? []);
      expect(
        readable.filter(
          (path) => !/(\/node_modules|\/isolated-vm\/|\/segment\/|\/alpine-release)$/.test(path),
        ),
      ).toEqual([]);
      expect(
        readFileSync(`/proc/${pid}/environ`, 'utf8').replace(/(TZ=UTC|NODE_CHANNEL_\w+=\w+)\0/g, ''),
      ).toBe('');
      expect(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8').trim()).toBe('1000');
    }

    it('is confined in the workers of the sandbox', async () => {
      const tools = { metrics: NO_METRICS, logger: NO_LOGGER };
      const sandbox = openIsolatedVmSandbox({ processes: 1, ...tools, ...confinement });
      onTestFinished(() => sandbox.close());
      expect(outcomes(await sandbox.run(program(HONEST), [input(1)]))).toEqual(['ok']);
      expectConfined(sandbox.workerPids()[0] ?? 0);
    });

    /** A connection test of a destination of the pack, with the processes started for it. */
    async function testPack(settings: Partial<Parameters<typeof createConnectors>[0]>) {
      const connectors = createConnectors({
        egressAllow: [],
        dataFolder: folder,
        clock: Date.now,
        logger: NO_LOGGER,
        metrics: NO_METRICS,
        resolve: async () => [{ address: '127.0.0.1', family: 4 }],
        timeoutMs: 20_000,
        ...settings,
      });
      onTestFinished(() => connectors.close());
      const type = [...connectors.descriptions.keys()].find((name) => name.includes('amplitude')) ?? '';
      const keys = { apiKey: 'key-0123456789abcdef', secretKey: 'secret-0123456789abcdef' };
      const destination = { id: 'd', workspaceId: 'w', version: 1, settings: keys };
      const before = packPids();
      const verdict = await connectors
        .connector(type)
        ?.test(destination, { signal: AbortSignal.timeout(20_000) });
      return { verdict, pids: packPids().filter((pid) => !before.includes(pid)) };
    }

    it('is confined in the worker of the Segment pack', async () => {
      const { pids } = await testPack({ confinement });
      expect(pids).toHaveLength(1);
      for (const pid of pids) expectConfined(pid);
    });

    it.skipIf(!isRoot)(
      'runs as the host’s user, with a warning, if another user cannot start the Segment pack',
      async () => {
        const warned: unknown[] = [];
        const logger = { ...NO_LOGGER, warn: (fields: object) => warned.push(fields) };
        const rootAlone = ['/bin/sh', '-c', 'test "$(id -u)" = 0 && exec "$@"', 'sh'];
        const { pids } = await testPack({ logger, confinement: { uid: NOBODY, wrapper: rootAlone } });
        expect(pids).toHaveLength(1);
        expect(readFileSync(`/proc/${pids[0]}/status`, 'utf8')).toMatch(/^Uid:(\s+0){4}$/m);
        expect(readFileSync(`/proc/${pids[0]}/cmdline`, 'utf8')).toContain('--permission');
        expect(warned).toMatchObject([{ children: 'the Segment pack', uid: NOBODY, detail: 'exit code 1' }]);
      },
    );

    /** The pack processes of this process. They stay for a minute after their last job. */
    function packPids(): readonly number[] {
      return readdirSync('/proc')
        .filter((name) => /^\d+$/.test(name))
        .flatMap((name) => {
          try {
            const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
            const parentPid = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
            const isPack = readFileSync(`/proc/${name}/cmdline`, 'utf8').includes('segment/worker.ts');
            return parentPid === process.pid && isPack ? [Number(name)] : [];
          } catch {
            return []; // it has ended meanwhile
          }
        });
    }
  });
});
