import { NO_LOGGER, NO_METRICS, type Sandbox } from '@tributary/core';
import { openIsolatedVmSandbox } from '@tributary/infra';
import { benchEvent } from './event.ts';
import { type BenchRow, perSecond } from './table.ts';

const PROGRAMS = 1_000;
const STARTS = 200;
const MAX_START_MS = 20;
const EVENT = JSON.stringify({ type: 'track', message_id: 'm', ...benchEvent(1) });

/** Starts of programs, and many programs in turn: each call finds that its program was given up for others. */
export async function sandboxProgramsRows(): Promise<readonly BenchRow[]> {
  const sandbox = openIsolatedVmSandbox({ processes: 1, logger: NO_LOGGER, metrics: NO_METRICS });
  try {
    for (let i = 0; i < 20; i++) await runs(sandbox, `warm-${i}`, 1);
    return [await startRow(sandbox), await inTurn(sandbox, 1), await inTurn(sandbox, 200)];
  } finally {
    await sandbox.close();
  }
}

async function startRow(sandbox: Sandbox): Promise<BenchRow> {
  const times: number[] = [];
  for (let i = 0; i < STARTS; i++) {
    const began = performance.now();
    await runs(sandbox, `start-${i}`, 1);
    times.push(performance.now() - began);
  }
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? 0;
  return {
    path: 'sandbox, the first event of a transformation',
    figure: `p50 ${at(0.5).toFixed(1)} ms, p99 ${at(0.99).toFixed(1)} ms`,
    baseline: '-',
    ratio: null,
    bar: `p99 < ${MAX_START_MS} ms`,
    holds: at(0.99) < MAX_START_MS,
  };
}

async function inTurn(sandbox: Sandbox, batch: number): Promise<BenchRow> {
  const began = performance.now();
  for (let i = 0; i < PROGRAMS; i++) await runs(sandbox, `turn-${batch}-${i}`, batch);
  const seconds = (performance.now() - began) / 1_000;
  return {
    path: `sandbox, ${PROGRAMS} transformations in turn, ${batch === 1 ? 'an event' : `${batch} events`} each`,
    figure: perSecond((PROGRAMS * batch) / seconds),
    baseline: '-',
    ratio: null,
    bar: '-',
    holds: null,
  };
}

async function runs(sandbox: Sandbox, id: string, events: number): Promise<void> {
  const source = `function transform(event) { event.properties.by = ${JSON.stringify(id)}; return event; }`;
  const input = { event: EVENT, context: '{}', at: 1_767_225_600_000, seed: id };
  const results = await sandbox.run({ id, owner: 'bench', source }, Array(events).fill(input));
  if (!results.every(({ ok }) => ok)) throw new Error('an event failed in the sandbox');
}
