import { startProcess } from './process.ts';
import { type BenchRow, median, perSecond, UNCOMPARED } from './table.ts';

/** The task of `warehouse-process.ts`. */
export interface WarehouseTask {
  readonly engine: 'postgresql' | 'lake' | 'clickhouse';
  readonly rounds: number;
}

/** The resources that one batch took in the process of the loader. */
export interface Took {
  readonly seconds: number;
  readonly cpuSeconds: number;
  /** Of the engine, where it is a process of its own. */
  readonly serverSeconds: number;
}

/** One entry for each round. */
export interface WarehouseTimes {
  readonly load: readonly Took[];
  /** The bare writing of the same rows; empty where there is none. */
  readonly bare: readonly Took[];
  readonly events: number;
  readonly rows: number;
  readonly peakMiB: number;
}

const ENGINES = [
  { engine: 'postgresql', title: 'PostgreSQL', bare: 'bare COPY by pg', rowsPerSecond: 15_000 },
  { engine: 'lake', title: 'a lake in a folder', bare: 'bare hyparquet-writer', rowsPerSecond: 50_000 },
  { engine: 'clickhouse', title: 'ClickHouse (chdb)', bare: '', rowsPerSecond: undefined },
] as const;

/**
 * Rows a second of a loader from the text of events to the commit, with the engine on the same cores; the baseline writes the rows
 * that the loader made.
 */
export async function warehouseRows(options: { readonly rounds: number }): Promise<readonly BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const { engine, title, bare, rowsPerSecond: least } of ENGINES) {
    const task: WarehouseTask = { engine, ...options };
    // All of the environment: npm needs its own to download an engine.
    const { hello, stop } = await startProcess<WarehouseTimes>('./warehouse-process.ts', process.env, [
      JSON.stringify(task),
    ]);
    await stop();
    const rateOf = (took: readonly Took[]) => hello.rows / median(took.map(({ seconds }) => seconds));
    const cpuOf = (took: readonly Took[]) =>
      `${((median(took.map(({ cpuSeconds }) => cpuSeconds)) * 1e6) / hello.events).toFixed(0)} us`;
    const rate = rateOf(hello.load);
    const ratio = median(
      hello.load.map(({ seconds }, at) => (hello.bare[at]?.seconds ?? Number.NaN) / seconds),
    );
    rows.push({
      ...UNCOMPARED,
      path: `load ${title}, ${hello.events.toLocaleString('en')} events of 60 names`,
      figure: `${perSecond(rate)} rows, ${cpuOf(hello.load)} an event`,
      ...(hello.bare.length > 0 && {
        baseline: `${bare} ${perSecond(rateOf(hello.bare))}, ${cpuOf(hello.bare)}`,
        ratio,
      }),
      ...(least !== undefined && { bar: `>= ${perSecond(least)}`, holds: rate >= least }),
      note: `at most ${hello.peakMiB.toFixed(0)} MiB`,
    });
  }
  return rows;
}
