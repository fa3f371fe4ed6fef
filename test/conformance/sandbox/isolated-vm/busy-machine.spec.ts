import { setTimeout as sleep } from 'node:timers/promises';
import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openIsolatedVmSandbox } from '@tributary/infra';
import { describe, expect, it, onTestFinished } from 'vitest';
import { badOn, inputs, outcomes, program } from '../suite/transformations.ts';

/** Processor time for which the worker is let run, and the pause after it, ms. */
const RUNS_MS = 4;
const WAITS_MS = 60;

/**
 * A sandbox whose workers get a small share of a core, as beside many busy processes. The share does not begin before the
 * first worker has loaded a program.
 */
async function openStarved() {
  const sandbox = openIsolatedVmSandbox({
    processes: 1,
    metrics: NO_METRICS,
    logger: NO_LOGGER,
    eventMs: 100,
  });
  await sandbox.run(program('function transform(event) { return event }'), inputs(1));
  let isOpen = true;
  const starving = starve(() => (isOpen ? sandbox.workerPids() : []));
  onTestFinished(async () => {
    isOpen = false;
    await starving;
    await sandbox.close();
  });
  return sandbox;
}

async function starve(workers: () => readonly number[]): Promise<void> {
  for (let pids = workers(); pids.length > 0; pids = workers()) {
    for (const pid of pids) signal(pid, 'SIGSTOP');
    await sleep(WAITS_MS);
    for (const pid of pids) signal(pid, 'SIGCONT');
    await sleep(RUNS_MS);
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

/** About 20 ms of processor time. */
const WORK = `let sum = 0; for (let i = 0; i < 1.5e7; i++) sum = Math.imul(sum ^ i, 31);`;

describe('A worker on a busy machine', () => {
  it('counted the time it waited for a processor as the time of the code: honest events took longer than their limit', async () => {
    const sandbox = await openStarved();
    const honest = program(`function transform(event) { ${WORK} event.properties.sum = sum; return event }`);
    const results = await sandbox.run(honest, inputs(3));
    expect(outcomes(results)).toEqual(['ok', 'ok', 'ok']);
    // The worker is still the first one: the owner was not quarantined.
    expect(sandbox.workerPids()).toHaveLength(1);
  });

  const endless = [
    ['an endless loop', 'for (;;) {}'],
    [
      'a rejection that floods with microtasks when it is read',
      'Promise.reject({ get message() { const again = () => Promise.resolve().then(again); again(); } });',
    ],
  ] as const;
  it.each(process.env.TRIBUTARY_TEST_LONG === undefined ? endless.slice(0, 1) : endless)(
    'stops code that has used its own time, however slowly it got it: %s',
    async (_, code) => {
      const sandbox = await openStarved();
      const results = await sandbox.run(badOn(code), inputs(3, [1]));
      expect(outcomes(results)).toEqual(['ok', 'timeout', 'ok']);
    },
  );
});
