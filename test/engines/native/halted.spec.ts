import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { pidOf } from '../../helpers/pid-of.ts';
import { untilHalted } from './halted.ts';

/** Reports once it has three more threads that never rest. */
const BUSY = `
const { Worker } = require('node:worker_threads');
for (let i = 0; i < 3; i++) new Worker('for (;;);', { eval: true });
console.log('busy');
setInterval(() => {}, 1_000);
`;

let child: ChildProcess;
beforeEach(async () => {
  child = spawn(process.execPath, ['-e', BUSY], { stdio: ['ignore', 'pipe', 'inherit'] });
  if (child.stdout) await once(child.stdout, 'data');
});
afterEach(async () => {
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
});

describe.skipIf(!existsSync('/proc/self/task'))('a process that is sent a SIGSTOP', () => {
  it('has halted once none of its threads runs, and not before', async () => {
    const halted = untilHalted(pidOf(child)).then(() => 'halted');
    expect(await Promise.race([halted, sleep(100, 'runs')])).toBe('runs');
    child.kill('SIGSTOP');
    expect(await halted).toBe('halted');
  });
});
