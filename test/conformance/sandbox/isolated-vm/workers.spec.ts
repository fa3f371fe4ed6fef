import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  closeSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { getPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Logger, NO_LOGGER, NO_METRICS, type SandboxProgram, Unavailable } from '@tributary/core';
import { openIsolatedVmSandbox } from '@tributary/infra';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { FLOATING_REJECTIONS } from '../suite/hostile-snippets.ts';
import { badOn, counting, HONEST, input, inputs, outcomes, program } from '../suite/transformations.ts';

/** The scheduling policies of Linux: see sched(7). */
const NORMAL = 0;
const WHEN_IDLE = 5;

/** The distinct scheduling policies of a process's threads: the 41st field of `proc(5)`. */
function policiesOf(pid = 0): readonly number[] {
  const threads = readdirSync(`/proc/${pid}/task`);
  const policies = threads.map((thread) => {
    const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[38]);
  });
  return [...new Set(policies)];
}

const priorityOf = (pid: number | undefined) => (pid === undefined ? undefined : getPriority(pid));

/** Throws if there is no such process. A signal to 0 would go to the whole group of this one. */
function signal(pid: number | undefined, name: NodeJS.Signals): void {
  if (pid === undefined) throw new Error('no worker to signal');
  process.kill(pid, name);
}

/**
 * For a program that does harm, and then something in time: it runs in the idle class by then, and may wait for a
 * processor on a busy machine.
 */
const ROOM_FOR_THE_IDLE = { eventMs: 300, watchdogMs: 1_500 };

type Options = Partial<Parameters<typeof openIsolatedVmSandbox>[0]>;

describe('The worker processes of isolated-vm', () => {
  const opened: { close(): Promise<void> }[] = [];
  const open = (options: Options = {}) => {
    const sandbox = openIsolatedVmSandbox({
      processes: 1,
      metrics: NO_METRICS,
      logger: NO_LOGGER,
      ...options,
    });
    opened.push(sandbox);
    return sandbox;
  };
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((sandbox) => sandbox.close()));
  });

  /** Whether the program was loaded for an event: the only sign that it runs in another isolate. */
  const loads = async (sandbox: ReturnType<typeof open>, one: SandboxProgram) =>
    ((await sandbox.run(one, [input(1)]))[0]?.loadMs ?? 0) > 0;
  const each = async (sandbox: ReturnType<typeof open>, programs: readonly SandboxProgram[]) => {
    const loaded: boolean[] = [];
    for (const one of programs) loaded.push(await loads(sandbox, one));
    return loaded;
  };

  it('keep a program in one isolate of one worker', async () => {
    const sandbox = open({ processes: 3 });
    const one = program(HONEST);
    expect(await each(sandbox, Array(10).fill(one))).toEqual([true, ...Array(9).fill(false)]);
  });

  it('are started at the first call', async () => {
    const sandbox = open({ processes: 2 });
    expect(sandbox.workerPids()).toEqual([]);
    expect(outcomes(await sandbox.run(program(HONEST), [input(1)]))).toEqual(['ok']);
    expect(sandbox.workerPids()).toHaveLength(2);
  });

  it('share the programs, and a new worker replaces a lost one', async () => {
    const sandbox = open({ processes: 2 });
    const programs = Array.from({ length: 12 }, () => program(HONEST));
    // All at once, before either worker is up: each waits for its own worker. One after the other, all would
    // go to the first.
    expect(await Promise.all(programs.map((one) => loads(sandbox, one)))).toEqual(Array(12).fill(true));
    const [lost, kept] = sandbox.workerPids();
    signal(lost, 'SIGKILL');
    await vi.waitFor(() => expect(isGone(lost)).toBe(true), { timeout: 60_000, interval: 10 });
    expect(new Set(await each(sandbox, programs))).toEqual(new Set([true, false]));
    expect(sandbox.workerPids()).toContain(kept);
    expect(sandbox.workerPids()).not.toContain(lost);
  });

  it('keep the programs of an owner in one isolate, and recreate it after a number of programs', async () => {
    const sandbox = open({ maxIsolates: 1, recycleAbovePrograms: 3 });
    const programs = Array.from({ length: 3 }, () => program(HONEST, 'owner'));
    const [first] = programs;
    expect(await each(sandbox, [...programs, ...programs])).toEqual([true, true, true, false, false, false]);
    const fourth = program(HONEST, 'owner');
    expect(await each(sandbox, first ? [fourth, first, first] : [])).toEqual([true, true, false]);
  });

  it.each([
    ['does not end', 'for (;;);'],
    ['takes all memory', 'const all = []; for (;;) all.push(new Array(1e5).fill(0));'],
  ])('lose an owner’s other programs when one %s, and load them again later', async (_, statements) => {
    const sandbox = open(ROOM_FOR_THE_IDLE);
    const [good, bad] = [program(HONEST, 'owner'), badOn(statements, 'owner')];
    expect(await each(sandbox, [good, good])).toEqual([true, false]);
    expect(outcomes(await sandbox.run(bad, inputs(3, [1])))).toEqual([
      'ok',
      expect.stringMatching(/timeout|memory/),
      'ok',
    ]);
    expect(await each(sandbox, [good, good])).toEqual([true, false]);
  });

  it('give an event its memory limit, with any memory use of other programs', async () => {
    // Large sources and buffers take a slow machine more than 100 ms, and time is not the subject.
    const sandbox = open({ eventMs: 1_000, watchdogMs: 5_000 });
    const buffer = (mb: number) =>
      program(
        `const transform = (event) => ({ ...event, n: new Uint8Array(${mb} * 2 ** 20).length })`,
        'owner',
      );
    for (let n = 0; n < 20; n++) {
      const large = `const text = ${JSON.stringify('x'.repeat(800_000) + n)};\n${HONEST}`;
      expect(outcomes(await sandbox.run(program(large, 'owner'), [input(1)]))).toEqual(['ok']);
    }
    expect(outcomes(await sandbox.run(buffer(40), inputs(3)))).toEqual(['ok', 'ok', 'ok']);
    expect(outcomes(await sandbox.run(buffer(80), inputs(2)))).toEqual(['threw', 'threw']);
  });

  describe('when a rejected promise is not awaited', () => {
    it.each(FLOATING_REJECTIONS)('lose nothing to $name', async ({ does, ends }) => {
      const counts = new Map<string, number>();
      const sandbox = open({ metrics: counting(counts) });
      const [good, bad] = [program(HONEST, 'owner'), badOn(does, 'owner')];
      expect(await each(sandbox, [good, bad])).toEqual([true, true]);
      counts.clear();
      expect(outcomes(await sandbox.run(bad, inputs(5, [0, 2])))).toEqual([
        ends[0],
        'ok',
        ends[0],
        'ok',
        'ok',
      ]);
      expect([...counts.keys()].filter((name) => name.includes('slices'))).toEqual([
        'tributary_sandbox_slices_total ended',
      ]);
      expect(await each(sandbox, [good, bad])).toEqual([false, false]);
    });

    it('lose nothing to a promise that is rejected while a later event waits', async () => {
      const source = `async function transform(event) {
        const late = async () => { for (let i = 0; i < 20; i++) await 0; throw new Error('late'); };
        if (event.properties.bad) late();
        if (event.properties.n === 3) for (let i = 0; i < 50; i++) await 0;
        return event;
      }`;
      const sandbox = open();
      const [good, bad] = [program(HONEST, 'owner'), program(source, 'owner')];
      expect(await each(sandbox, [good, bad])).toEqual([true, true]);
      expect(outcomes(await sandbox.run(bad, inputs(5, [0, 2])))).toEqual(Array(5).fill('ok'));
      expect(await each(sandbox, [good, bad])).toEqual([false, false]);
    });
  });

  it('fail a source for its faults, and not other programs', async () => {
    const sandbox = open();
    const [good, wrong] = [program(HONEST, 'owner'), program('function transform(', 'owner')];
    await each(sandbox, [good]);
    expect(outcomes(await sandbox.run(wrong, [input(1)]))).toEqual(['compile']);
    expect(outcomes(await sandbox.run(wrong, [input(2)]))).toEqual(['compile']);
    expect(await each(sandbox, [good, good])).toEqual([true, false]);
  });

  it('inherit no environment and no file, and are the first target of the OOM killer', async () => {
    const file = openSync(fileURLToPath(import.meta.url), 'r');
    const sandbox = open();
    await sandbox.run(program(HONEST), [input(1)]);
    const [pid] = sandbox.workerPids();
    expect(readFileSync(`/proc/${pid}/environ`, 'utf8')).toBe('TZ=UTC\0');
    const held = readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
    closeSync(file);
    expect(held.length).toBeGreaterThanOrEqual(3);
    expect(held.filter((target) => target.startsWith('/') && !target.startsWith('/dev/'))).toEqual([]);
    expect(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8').trim()).toBe('1000');
  });

  describe.skipIf(process.getuid?.() !== 0)('where this process runs as root', () => {
    it('run as another user if it can read the required files, otherwise as this process', async () => {
      const warned: unknown[] = [];
      const logger = { ...NO_LOGGER, warn: (fields: unknown) => warned.push(fields) } as Logger;
      const sandbox = open({ uid: 65_534, logger });
      expect(outcomes(await sandbox.run(program(HONEST), [input(1)]))).toEqual(['ok']);
      const status = readFileSync(`/proc/${sandbox.workerPids()[0]}/status`, 'utf8');
      const uid = warned.length === 0 ? '65534' : '0';
      for (const field of ['Uid', 'Gid'])
        expect(status).toMatch(new RegExp(`^${field}:(\\s+${uid}){4}$`, 'm'));
      if (warned.length === 0) expect(status).toMatch(/^Groups:\s*$/m);
    });

    it('run as this process, with a warning, if another user cannot start them', async () => {
      const folder = mkdtempSync(join(tmpdir(), 'tributary-'));
      try {
        const node = join(folder, 'node');
        symlinkSync(process.execPath, node);
        chmodSync(folder, 0o700);
        const warned: unknown[] = [];
        const logger = { ...NO_LOGGER, warn: (fields: unknown) => warned.push(fields) } as Logger;
        const sandbox = open({ processes: 2, uid: 65_534, node, logger });
        expect(outcomes(await sandbox.run(program(HONEST), [input(1)]))).toEqual(['ok']);
        expect(readFileSync(`/proc/${sandbox.workerPids()[0]}/status`, 'utf8')).toMatch(/^Uid:(\s+0){4}$/m);
        expect(warned).toMatchObject([{ uid: 65_534, detail: expect.stringContaining('EACCES') }]);
      } finally {
        rmSync(folder, { recursive: true });
      }
    });
  });

  it('run the programs of a quarantined owner in separate workers of low priority', async () => {
    const sandbox = open(ROOM_FOR_THE_IDLE);
    const loop = badOn('for (;;);', 'harmful');
    expect(outcomes(await sandbox.run(loop, inputs(3, [1])))).toEqual(['ok', 'timeout', 'ok']);
    const [first, apart] = sandbox.workerPids();
    expect(sandbox.workerPids()).toHaveLength(2);
    // First, because a quarantine ends after 30 s.
    signal(apart, 'SIGSTOP');
    const other = sandbox.run(program(HONEST, 'harmful'), [input(1)]);
    expect(outcomes(await sandbox.run(program(HONEST, 'honest'), [input(1)]))).toEqual(['ok']);
    const winner = Promise.race([other, sleep(100, 'still waiting')]);
    expect(await winner).toBe('still waiting');
    signal(apart, 'SIGCONT');
    expect(outcomes(await other)).toEqual(['ok']);
    expect([first, apart].map(priorityOf)).toEqual([getPriority() + 5, 19]);
    if (process.platform === 'linux')
      await vi.waitFor(() => expect([first, apart].map(policiesOf)).toEqual([[NORMAL], [WHEN_IDLE]]), {
        timeout: 60_000,
      });
  });

  it('that are blocked are relieved by others for queued events', async () => {
    // The stopped worker is not killed while this test waits.
    const sandbox = open({ processes: 2, watchdogMs: 30_000 });
    const programs = Array.from({ length: 8 }, () => program(HONEST));
    for (const one of programs) await sandbox.run(one, [input(1)]);
    const [stopped] = sandbox.workerPids();
    signal(stopped, 'SIGSTOP');
    const waiting = programs.flatMap((one) => [1, 2, 3].map((n) => sandbox.run(one, [input(n)])));
    let done = 0;
    for (const run of waiting) void run.then(() => ++done);
    // Two runs may already be with the stopped worker, and each may have the next run of its owner waiting
    // behind it.
    await vi.waitFor(() => expect(done).toBeGreaterThanOrEqual(waiting.length - 4), { timeout: 60_000 });
    signal(stopped, 'SIGCONT');
    expect((await Promise.all(waiting)).flatMap(outcomes)).toEqual(Array(24).fill('ok'));
  });

  it('die with their host, also when stuck in user code', async () => {
    const host = spawn(
      process.execPath,
      [fileURLToPath(new URL('../programs/doomed-host.ts', import.meta.url))],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    const [line] = (await once(host.stdout, 'data')) as [Buffer];
    const pids = JSON.parse(line.toString()) as number[];
    expect(pids).toHaveLength(2);
    expect(pids.some(isGone)).toBe(false);
    host.kill('SIGKILL');
    await vi.waitFor(() => expect(pids.every(isGone)).toBe(true), { timeout: 60_000, interval: 20 });
  });

  it('that never start make every call Unavailable', async () => {
    const sandbox = open({ processes: 2, node: '/nowhere/node' });
    await expect(sandbox.run(program(HONEST), [input(1)])).rejects.toBeInstanceOf(Unavailable);
    await expect(sandbox.check(program(HONEST))).rejects.toBeInstanceOf(Unavailable);
  });
});

/** An orphaned process may stay a zombie on machines where no init process reaps it. */
function isGone(pid: number | undefined): boolean {
  try {
    return /^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return true;
  }
}
