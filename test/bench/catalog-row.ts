import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { declareTopics, NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openSqliteEventLog } from '@tributary/infra';
import { appendFacts, type CatalogSize, LARGE, MEDIUM, SMALL } from './catalog-contents.ts';
import type { CatalogFigures } from './catalog-process.ts';
import { startProcess } from './process.ts';
import { type BenchRow, judged, median, perSecond } from './table.ts';

const START_BAR_MS = 20_000;
/**
 * The number of steps is the same (a spec counts them). The extra cost at a thousand times the size comes
 * from the processor's caches.
 */
const LOOKUP_BAR = 0.1;

/** One catalog on disk: a log of all its facts, and the path of its snapshot. */
interface Installed {
  readonly folder: string;
  readonly facts: number;
  readonly workspaces: number;
  readonly destinations: number;
}

/**
 * Start with and without a snapshot and memory, of a catalog and of one that is ten times as large; and lookups, of the
 * large one and of a small one in alternation.
 */
export async function catalogRows({ rounds }: { rounds: number }): Promise<readonly BenchRow[]> {
  const [large, medium, small] = [await install(LARGE), await install(MEDIUM), await install(SMALL)];
  try {
    await measure(small, 'cold');
    const empty = await measure(small, 'warm');
    const starts = [await startRows(medium, empty), await startRows(large, empty)];
    const pairs = [];
    for (let round = 0; round < rounds; round++)
      pairs.push([await measure(large, 'warm'), await measure(small, 'warm')] as const);
    const lookups = median(pairs.map(([one]) => one.lookupsPerSecond));
    const baseline = median(pairs.map(([, other]) => other.lookupsPerSecond));
    const ratio = median(pairs.map(([one, other]) => one.lookupsPerSecond / other.lookupsPerSecond));
    return [
      ...starts.flat(),
      {
        path: `${described(large)}: look-ups of key, contract and rules`,
        figure: perSecond(lookups),
        baseline: `${perSecond(baseline)} with ${small.facts} facts`,
        ...judged(ratio, '>=', LOOKUP_BAR),
      },
    ];
  } finally {
    for (const { folder } of [large, medium, small]) await rm(folder, { recursive: true, force: true });
  }
}

async function startRows(installed: Installed, empty: CatalogFigures): Promise<readonly BenchRow[]> {
  const what = described(installed);
  const cold = startRow(`${what}: start from the log`, await measure(installed, 'cold'), empty);
  const warm = await measure(installed, 'warm');
  const { size } = await stat(snapshotOf(installed));
  return [
    cold,
    startRow(`${what}: start from its snapshot (${Math.round(size / 1024 / 1024)} MiB)`, warm, empty),
  ];
}

function described({ facts, workspaces, destinations }: Installed): string {
  const [all, spaces, targets] = [facts, workspaces, destinations].map((count) => count.toLocaleString('en'));
  return `catalog of ${all} facts, ${spaces} workspaces, ${targets} destinations`;
}

function startRow(path: string, { startMs, residentMiB }: CatalogFigures, empty: CatalogFigures): BenchRow {
  return {
    path,
    figure: `${(startMs / 1_000).toFixed(2)} s`,
    baseline: `${(empty.startMs / 1_000).toFixed(2)} s with a small one`,
    ratio: null,
    bar: `<= ${START_BAR_MS / 1_000} s`,
    holds: startMs <= START_BAR_MS,
    note: `${Math.round(residentMiB)} MiB resident, ${Math.round(residentMiB - empty.residentMiB)} more than a small one`,
  };
}

async function install(size: CatalogSize): Promise<Installed> {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-bench-'));
  const topics = declareTopics({ partitions: 1, retentionMs: 3_600_000, retrySteps: [], dedicated: [] });
  const log = await openSqliteEventLog({ folder, topics, logger: NO_LOGGER, metrics: NO_METRICS });
  await log.createTopics();
  const facts = await appendFacts(log, size);
  await log.close();
  const { workspaces, destinationsEach } = size;
  return { folder, facts, workspaces, destinations: workspaces * destinationsEach };
}

/** Each measurement runs in its own process, so that memory is that of one start. */
async function measure(installed: Installed, how: 'cold' | 'warm'): Promise<CatalogFigures> {
  const { folder, workspaces } = installed;
  const file = snapshotOf(installed);
  if (how === 'cold') await rm(file, { force: true });
  const child = await startProcess<CatalogFigures>('./catalog-process.ts', {}, [
    folder,
    file,
    String(workspaces),
  ]);
  await child.stop();
  return child.hello;
}

function snapshotOf({ folder }: Installed): string {
  return join(folder, 'catalog.snapshot');
}
