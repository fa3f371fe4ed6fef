import { NO_LOGGER, NO_METRICS, type Sandbox, type SandboxProgram } from '@tributary/core';
import { openIsolatedVmSandbox } from '@tributary/infra';
import { benchEvent } from './event.ts';
import { type BenchRow, judged, median, perSecond, UNCOMPARED } from './table.ts';

const PROGRAMS = 1_000;
const STARTS = 200;
const MAX_START_MS = 20;
const ROUNDS = 3;
const IN_TURN_BAR = 0.5;
const EVENT = JSON.stringify({ type: 'track', message_id: 'm', ...benchEvent(1) });

/**
 * Starts of programs, and a thousand of them in turn: of one workspace, which share an isolate, and each of
 * its own.
 */
export async function sandboxProgramsRows(): Promise<readonly BenchRow[]> {
  const sandbox = openIsolatedVmSandbox({ processes: 1, logger: NO_LOGGER, metrics: NO_METRICS });
  try {
    for (let i = 0; i < 20; i++) await runs(sandbox, { id: `warm-${i}`, owner: `warm-${i}` }, 1);
    return [
      await startRow(sandbox),
      await inTurn(sandbox, 1),
      await inTurn(sandbox, 200),
      await ofManyWorkspaces(sandbox, 1),
      await ofManyWorkspaces(sandbox, 200),
    ];
  } finally {
    await sandbox.close();
  }
}

async function startRow(sandbox: Sandbox): Promise<BenchRow> {
  const times: number[] = [];
  for (let i = 0; i < STARTS; i++) {
    const began = performance.now();
    await runs(sandbox, { id: `start-${i}`, owner: `start-${i}` }, 1);
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

/** Cycles through the transformations of one workspace, against as many calls of one of them. */
async function inTurn(sandbox: Sandbox, batch: number): Promise<BenchRow> {
  const lap = (of: number) =>
    calls(sandbox, batch, (i) => ({ id: `turn-${batch}-${i % of}`, owner: 'workspace' }));
  const first = await lap(PROGRAMS);
  const measured: (readonly [one: number, all: number])[] = [];
  for (let n = 0; n < ROUNDS; n++) measured.push([await lap(1), await lap(PROGRAMS)]);
  const ratio = median(measured.map(([one, all]) => all / one));
  return {
    path: `sandbox, ${PROGRAMS} transformations of a workspace in turn, ${called(batch)} each`,
    figure: `${perSecond(median(measured.map(([, all]) => all)))}, the first time ${perSecond(first)}`,
    baseline: `${perSecond(median(measured.map(([one]) => one)))} of one`,
    ...judged(ratio, '>=', IN_TURN_BAR),
  };
}

/** Each call finds its isolate evicted: a worker keeps far fewer isolates. */
async function ofManyWorkspaces(sandbox: Sandbox, batch: number): Promise<BenchRow> {
  const figure = await calls(sandbox, batch, (i) => ({ id: `alien-${batch}-${i}`, owner: `owner-${i}` }));
  return {
    path: `sandbox, ${PROGRAMS} workspaces in turn, ${called(batch)} each`,
    figure: perSecond(figure),
    ...UNCOMPARED,
  };
}

function called(batch: number): string {
  return batch === 1 ? 'an event' : `${batch} events`;
}

/** Events a second over this many calls. */
async function calls(sandbox: Sandbox, batch: number, nth: (i: number) => Called): Promise<number> {
  const began = performance.now();
  for (let i = 0; i < PROGRAMS; i++) await runs(sandbox, nth(i), batch);
  return (PROGRAMS * batch) / ((performance.now() - began) / 1_000);
}

type Called = Pick<SandboxProgram, 'id' | 'owner'>;

async function runs(sandbox: Sandbox, called: Called, events: number): Promise<void> {
  const source = `function transform(event) { event.properties.by = ${JSON.stringify(called.id)}; return event; }`;
  const input = { event: EVENT, context: '{}', at: 1_767_225_600_000, seed: called.id };
  const results = await sandbox.run({ ...called, source }, Array(events).fill(input));
  if (!results.every(({ ok }) => ok)) throw new Error('an event failed in the sandbox');
}

const BATCH = 200;
const BAR = 100_000;

/** Events a second through one sandbox process, for a small function. */
export async function sandboxRow({ rounds }: { rounds: number }): Promise<BenchRow> {
  const sandbox = openIsolatedVmSandbox({ processes: 1, logger: NO_LOGGER, metrics: NO_METRICS });
  const program = {
    id: 'bench/1',
    owner: 'bench',
    source:
      'function transform(event) { event.properties.total = event.properties.price * event.properties.quantity; return event; }',
  };
  const event = JSON.stringify({ type: 'track', message_id: 'm', ...benchEvent(1) });
  const inputs = Array.from({ length: BATCH }, () => ({
    event,
    context: '{}',
    at: 1_767_225_600_000,
    seed: 'bench',
  }));
  const figures: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const startedAt = performance.now();
    let events = 0;
    while (performance.now() - startedAt < 2_000) {
      const results = await sandbox.run(program, inputs);
      if (!results.every(({ ok }) => ok)) throw new Error('an event failed in the sandbox');
      events += BATCH;
    }
    if (round > 0) figures.push(events / ((performance.now() - startedAt) / 1_000));
  }
  await sandbox.close();
  const figure = median(figures);
  return {
    path: `sandbox, one process, batches of ${BATCH}`,
    figure: perSecond(figure),
    baseline: '-',
    ratio: null,
    bar: `>= ${perSecond(BAR)}`,
    holds: figure >= BAR,
  };
}
