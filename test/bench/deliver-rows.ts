import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startProcess } from './process.ts';
import { type BenchRow, judged, median, perSecond } from './table.ts';

const BAR = 0.7;

/** The task of `deliver-process.ts`. */
export interface DeliverTask {
  readonly url: string;
  readonly events: number;
  readonly batchSize: number;
  readonly rounds: number;
  /** Destinations of the webhook, which the deliveries go to in turn; 1 when absent. */
  readonly destinations?: number;
}

/** The speed of one contender in a round. */
export interface DeliverTime {
  readonly perSecond: number;
  /** Processor time of its process for each delivery, us: less affected by other load of the machine. */
  readonly us: number;
}

/** One entry for each round. */
export interface DeliverTimes {
  readonly deliver: DeliverTime[];
  readonly fromLog: DeliverTime[];
  readonly bare: DeliverTime[];
  /** Of the process after the last round, with the catalog and the deliveries that it holds itself. */
  readonly residentMiB: number;
}

/**
 * Deliveries a second of one process to a fast webhook on this machine, one by one and in batches. The
 * baselines are bare undici, and a client that adds the work of any signed delivery from a log.
 */
export async function deliverRows({
  rounds,
  events,
}: {
  rounds: number;
  events: number;
}): Promise<BenchRow[]> {
  const webhook = await startProcess<{ url: string }>('./webhook-process.ts');
  try {
    const rows: BenchRow[] = [];
    for (const [path, batchSize, count] of [
      ['deliver to a webhook, one by one', 1, events],
      ['deliver to a webhook, batches of 100', 100, events * 10],
    ] as const) {
      const task: DeliverTask = { url: webhook.hello.url, events: count, batchSize, rounds };
      const { deliver, fromLog, bare } = await work(task);
      const figure = shown(deliver);
      const ratio = ratioOf(deliver, bare);
      rows.push({ path, figure, baseline: `undici ${shown(bare)}`, ...judged(ratio, '>=', BAR) });
      const toFromLog = { ratio: ratioOf(deliver, fromLog), bar: '-', holds: null };
      rows.push({ path, figure, baseline: `read, parsed, signed: ${shown(fromLog)}`, ...toFromLog });
    }
    return rows;
  } finally {
    await webhook.stop();
  }
}

function ratioOf(figures: readonly DeliverTime[], baselines: readonly DeliverTime[]): number {
  return median(
    figures.map(({ perSecond: each }, round) => each / (baselines[round]?.perSecond ?? Number.NaN)),
  );
}

export function shown(times: readonly DeliverTime[]): string {
  const us = median(times.map((time) => time.us));
  return `${perSecond(median(times.map((time) => time.perSecond)))}, ${Math.round(us)} us`;
}

export async function work(task: DeliverTask): Promise<DeliverTimes> {
  const file = fileURLToPath(new URL('./deliver-process.ts', import.meta.url));
  const args = ['--disable-warning=ExperimentalWarning', file, JSON.stringify(task)];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return JSON.parse(stdout) as DeliverTimes;
}

/** Processor time of a delivery among many destinations, of one that goes to few. */
const DESTINATIONS_BAR = 3;

/**
 * Deliveries one by one to many destinations in turn, ten of each workspace, all of them one webhook on this machine. The
 * baseline is the first number of destinations, so the ratio is the cost of a destination beside others.
 */
export async function destinationRows(options: {
  readonly rounds: number;
  /** More where there are more destinations: each gets one. */
  readonly events: number;
  readonly destinations: readonly number[];
}): Promise<readonly BenchRow[]> {
  const { rounds } = options;
  const webhook = await startProcess<{ url: string }>('./webhook-process.ts');
  try {
    const rows: BenchRow[] = [];
    let few: { readonly us: number; readonly figure: string } | undefined;
    for (const destinations of options.destinations) {
      const events = Math.max(options.events, destinations);
      const task: DeliverTask = { url: webhook.hello.url, events, batchSize: 1, rounds, destinations };
      const { deliver, bare, residentMiB } = await work(task);
      const us = median(deliver.map((time) => time.us));
      const figure = shown(deliver);
      few ??= { us, figure };
      const ratio = us / few.us;
      rows.push({
        path: `deliver to ${destinations.toLocaleString('en')} destinations in turn`,
        figure,
        baseline: `${few.figure} to the fewest`,
        ...judged(ratio, '<=', DESTINATIONS_BAR),
        note: `${residentMiB.toFixed(0)} MiB at the end; undici ${shown(bare)}`,
      });
    }
    return rows;
  } finally {
    await webhook.stop();
  }
}
