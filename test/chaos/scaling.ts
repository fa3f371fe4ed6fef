import { setTimeout as sleep } from 'node:timers/promises';
import { Dice } from './dice.ts';
import { drained } from './drain.ts';
import { gather } from './evidence.ts';
import { longestStandstills, ratesOf } from './handover.ts';
import type { Installation } from './installation.ts';
import { type Sample, watchPositions } from './positions.ts';
import { produce, type SendingFigures } from './producers.ts';
import { type FailingReceiver, startFailingReceiver } from './receiver.ts';
import { runOnInstallation } from './report.ts';
import { repeatFlights, shareOut } from './traffic.ts';
import { type Finding, verify } from './verify.ts';
import { prepareChaosWorkspace } from './workspace.ts';

export interface ScalingOptions {
  readonly seed: number;
  /** Enough to keep the stages busy through all phases. */
  readonly events: number;
  /** The measured period for each number of processors, ms. */
  readonly phaseMs: number;
  readonly drainWithinMs: number;
}

const PARTITIONS = 4;
const PRODUCERS = 8;
const SESSION_TIMEOUT_MS = 6_000;
/** The period counted as being around a change of the group. */
const AROUND_MS = 10_000;

/**
 * Works off a backlog with one processor; a second one joins, and leaves by SIGTERM. Reports the throughput
 * of each number of processors and the standstills of partitions while they moved, and verifies the outcome.
 */
export async function runScaling(
  options: ScalingOptions,
  tell: (line: string) => void,
): Promise<readonly Finding[]> {
  const receiver = await startFailingReceiver(new Dice(options.seed));
  try {
    return await runOnInstallation(
      'scaling',
      { processors: 0, partitions: PARTITIONS, sessionTimeoutMs: SESSION_TIMEOUT_MS },
      tell,
      (installation) => scale(installation, receiver, options, tell),
    );
  } finally {
    await receiver.close();
  }
}

async function scale(
  installation: Installation,
  receiver: FailingReceiver,
  { seed, events: count, phaseMs, drainWithinMs }: ScalingOptions,
  tell: (line: string) => void,
): Promise<readonly Finding[]> {
  const workspace = await prepareChaosWorkspace(await installation.person(), receiver.url);
  const events = repeatFlights(count);
  const figures: SendingFigures = { confirmed: 0, duplicates: 0, answers: new Map(), slowestMs: 0 };
  const { workspaceId, writeKey } = workspace;
  await produce(
    shareOut(events, PRODUCERS),
    {
      gateways: installation.gateways,
      workspaceId,
      writeKey,
      rate: Number.POSITIVE_INFINITY,
      dice: new Dice(seed),
      patienceMs: 180_000,
    },
    figures,
  );
  tell(`${figures.confirmed} events wait in the log`);
  const watching = new AbortController();
  await installation.add('processor-1');
  await installation.becomesReady();
  const { samples, ended } = await watchPositions(
    installation.kafka.url,
    installation.prefix,
    watching.signal,
  );
  await phases(installation, samples, phaseMs, tell);
  watching.abort();
  await ended;
  await drained(installation, drainWithinMs);
  return verify(events, await gather(installation, workspace, receiver.ids), workspace.ruleIds);
}

async function phases(
  installation: Installation,
  samples: readonly Sample[],
  phaseMs: number,
  tell: (line: string) => void,
): Promise<void> {
  const measured = async (what: string) => {
    await sleep(AROUND_MS); // warm-up, and time for the partitions to move
    const from = performance.now();
    await sleep(phaseMs);
    const rates = ratesOf(samples, from, performance.now());
    const all = [...rates.values()].reduce((sum, rate) => sum + rate, 0);
    const each = [...rates].map(([stage, rate]) => `${stage} ${Math.round(rate)}/s`).join(', ');
    tell(`${what}: ${each}; ${Math.round(all)} records/s in all`);
    return all;
  };
  const standstills = (what: string, from: number) => {
    const found = longestStandstills(samples, from, from + AROUND_MS);
    const longest = found.map(({ stage, partition, ms }) => `${stage}/${partition} ${Math.round(ms)} ms`);
    tell(`longest standstill ${what}: ${longest.join(', ') || 'none'}`);
  };
  const one = await measured('one processor');
  standstills('with one processor', performance.now() - AROUND_MS);
  const joins = performance.now();
  await installation.add('processor-2');
  await installation.becomesReady();
  const joined = performance.now();
  tell(`the second processor was ready ${Math.round(joined - joins)} ms after its start`);
  const two = await measured('two processors');
  tell(`two got ${(two / one).toFixed(2)} times as much done as one`);
  standstills('while it joined', joined - 1_000);
  const leaves = performance.now();
  tell(`it left by SIGTERM in ${Math.round(await installation.take('processor-2'))} ms`);
  await measured('one processor again');
  standstills('while it left', leaves);
}
