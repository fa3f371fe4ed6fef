import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startProcess } from './process.ts';
import { type BenchRow, median, perSecond } from './table.ts';

const BAR = 0.7;

/** What `deliver-process.ts` is to do. */
export interface DeliverTask {
  readonly url: string;
  readonly events: number;
  readonly batchSize: number;
  readonly rounds: number;
}

/** Deliveries a second, one a round. */
export interface DeliverTimes {
  readonly deliver: number[];
  readonly bare: number[];
}

/** Deliveries a second of one process to a fast webhook on this machine, one by one and in batches. */
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
      ['deliver to a webhook, batches of 100', 100, events * 2],
    ] as const) {
      const task: DeliverTask = { url: webhook.hello.url, events: count, batchSize, rounds };
      const { deliver, bare } = await work(task);
      const ratio = median(deliver.map((figure, round) => figure / (bare[round] ?? Number.NaN)));
      rows.push({
        path,
        figure: perSecond(median(deliver)),
        baseline: `undici ${perSecond(median(bare))}`,
        ratio,
        bar: `>= ${BAR}`,
        holds: ratio >= BAR,
      });
    }
    return rows;
  } finally {
    await webhook.stop();
  }
}

async function work(task: DeliverTask): Promise<DeliverTimes> {
  const file = fileURLToPath(new URL('./deliver-process.ts', import.meta.url));
  const args = ['--disable-warning=ExperimentalWarning', file, JSON.stringify(task)];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return JSON.parse(stdout) as DeliverTimes;
}
