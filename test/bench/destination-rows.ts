import { type DeliverTask, shown, work } from './deliver-rows.ts';
import { startProcess } from './process.ts';
import { type BenchRow, median } from './table.ts';

/** Processor time of a delivery among many destinations, of one that goes to few. */
const BAR = 3;

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
        ratio,
        bar: `<= ${BAR}`,
        holds: ratio <= BAR,
        note: `${residentMiB.toFixed(0)} MiB at the end; undici ${shown(bare)}`,
      });
    }
    return rows;
  } finally {
    await webhook.stop();
  }
}
