import { declareTopics, hashKey, NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openLogCatalog, openSqliteEventLog } from '@tributary/infra';
import { eventName, rawKey, workspaceId } from './catalog-contents.ts';
import { residentMiB } from './usage.ts';

/** The figures that a process with a catalog reports about its start and its lookups. */
export interface CatalogFigures {
  readonly startMs: number;
  readonly residentMiB: number;
  readonly lookupsPerSecond: number;
}

const LOOKUPS = 200_000;
const KEYS_EACH = 10;

/** Opens the catalog of a folder, measures, closes it (which writes its snapshot), and prints the figures as JSON. */
const [folder = '', file = '', workspaces = ''] = process.argv.slice(2);
const topics = declareTopics({ partitions: 1, retentionMs: 3_600_000, retrySteps: [], dedicated: [] });
const log = await openSqliteEventLog({ folder, topics, logger: NO_LOGGER, metrics: NO_METRICS });
const startedAt = performance.now();
const catalog = openLogCatalog({ log, logger: NO_LOGGER, snapshot: { file, retentionMs: 3_600_000 } });
await catalog.catchUp(120_000);
const startMs = performance.now() - startedAt;
globalThis.gc?.();
const resident = residentMiB(process.pid);
lookUp(LOOKUPS / 4); // warm-up
const lookupsPerSecond = lookUp(LOOKUPS);
await catalog.close();
await log.close();
const figures: CatalogFigures = { startMs, residentMiB: resident, lookupsPerSecond };
process.stdout.write(`${JSON.stringify(figures)}\n`);
process.exit(0);

/** Does the catalog lookups of one event (its sender, contracts, routes), spread over the whole catalog. */
function lookUp(times: number): number {
  const ids = Array.from({ length: Number(workspaces) }, (_, w) => workspaceId(w));
  const begun = performance.now();
  for (let i = 0; i < times; i++) {
    const w = (i * 7_919) % ids.length;
    const id = ids[w] ?? '';
    const found = catalog.state.keyByHash(hashKey(rawKey(w, i % KEYS_EACH)));
    const contract = catalog.state.contractAt(id, 'track', eventName(i % 3), catalog.position);
    const rules = catalog.state.enabledRules(id);
    if (found === undefined || contract === undefined || rules.length === 0)
      throw new Error('a look-up failed');
  }
  return (times / (performance.now() - begun)) * 1_000;
}
