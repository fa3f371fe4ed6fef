import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NO_LOGGER } from '@tributary/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { CrashEvidence } from './crash-evidence.ts';

/** A process with an entry in flight, which exhausts its heap in one allocation, or waits to be killed. */
const PROGRAM = `
import { Worker } from 'node:worker_threads';
const { CrashEvidence } = await import(process.argv[1]);
const { InFlightMemory, InFlightTable } = await import(process.argv[2]);
const inFlight = new InFlightMemory();
const evidence = new CrashEvidence(process.argv[3], { warn: console.error });
const slot = new InFlightTable(inFlight.memory, (at, name) => inFlight.named(at, name)).open({ stage: 's', topic: 't', partition: 3 });
evidence.take();
evidence.begin(inFlight);
slot.take({ position: { topic: 't', partition: 3, offset: 41, index: 2 }, timestamp: 9 });
setInterval(() => {}, 1_000);
setTimeout(() => {
  console.log('in flight');
  const code = "process.report.excludeEnv = true; JSON.parse('[' + '1,'.repeat(3e7) + '1]')";
  if (process.argv[4] === 'fatal') new Worker(code, { eval: true, resourceLimits: { maxOldGenerationSizeMb: 32 } });
}, 300);
`;

async function ended(folder: string, how: 'fatal' | 'killed'): Promise<void> {
  const urls = ['./crash-evidence.ts', '../../adapters/event-log/stage-runner/suspects.ts'].map(
    (path) => new URL(path, import.meta.url).href,
  );
  const options = ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', PROGRAM];
  const child = spawn(process.execPath, [...options, ...urls, folder, how], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { SECRET: 'not to be seen' },
  });
  const exit = once(child, 'exit');
  await once(child.stdout, 'data');
  if (how === 'killed') child.kill('SIGKILL');
  await exit;
}

describe('a process that ended', () => {
  const folder = () => {
    const made = mkdtempSync(join(tmpdir(), 'tributary-crash-'));
    onTestFinished(() => rmSync(made, { recursive: true }));
    return made;
  };

  it('looked like a killed one after a heap overflow: there is a report with the in-flight records', async () => {
    const data = folder();
    await ended(data, 'fatal');
    const files = readdirSync(join(data, 'crashes'));
    for (const name of files)
      expect(readFileSync(join(data, 'crashes', name), 'utf8')).not.toContain('not to be seen');
    const evidence = new CrashEvidence(data, NO_LOGGER);
    const [crash, ...others] = evidence.take();
    expect(others).toEqual([]);
    expect(crash?.ranges).toMatchObject([
      { stage: 's', topic: 't', partition: 3, from: { offset: 41, index: 2 }, to: { offset: 41, index: 2 } },
    ]);
    expect(evidence.take()).toEqual([]);
    expect(readdirSync(join(data, 'crashes'))).toEqual([]);
  });

  it('is not counted as crashed if it was killed', async () => {
    const data = folder();
    await ended(data, 'killed');
    expect(readdirSync(join(data, 'crashes')).length).toBeGreaterThan(0);
    expect(new CrashEvidence(data, NO_LOGGER).take()).toEqual([]);
    expect(readdirSync(join(data, 'crashes'))).toEqual([]);
  });
});
