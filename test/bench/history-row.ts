import { Client } from '@elastic/elasticsearch';
import { type HistoryEntry, NO_LOGGER } from '@tributary/core';
import { openElasticsearchHistory } from '@tributary/infra';
import { describeMachine, enginesOf } from '../engines/index.ts';
import { removeIndices } from '../helpers/elasticsearch.ts';
import { freshPrefix } from '../helpers/engines.ts';
import { type BenchRow, median, perSecond } from './table.ts';

const ENTRIES = 500;
const DAY_MS = 24 * 60 * 60 * 1000;

export interface HistoryRowOptions {
  readonly rounds: number;
  readonly seconds: number;
}

/**
 * Entries a second put into Elasticsearch by one process that waits for each batch, as the stage does. The
 * baseline is a bare bulk of the same entries by the same client, with dynamic mapping. The row starts its
 * own node.
 */
export async function historyRow(options: HistoryRowOptions): Promise<BenchRow> {
  const engine = await enginesOf(describeMachine(process.env)).elasticsearch.start();
  try {
    return await measure(engine.url, options);
  } finally {
    await engine.stop();
  }
}

async function measure(url: string, { rounds, seconds }: HistoryRowOptions): Promise<BenchRow> {
  const prefix = freshPrefix();
  const access = { urls: [url] };
  const fixed = { prefix, clock: Date.now, retentionMs: DAY_MS, logger: NO_LOGGER };
  const history = await openElasticsearchHistory({ access, ...fixed });
  const client = new Client({ node: url, maxRetries: 0 });
  const index = `tributary-${prefix}bare`;
  await client.indices.create({ index, settings: { refresh_interval: '500ms' } });
  const bulk = async (entries: readonly HistoryEntry[]) => {
    const { errors } = await client.bulk({
      index,
      operations: entries.flatMap((entry) => [{ index: { _id: entry.id } }, entry]),
    });
    if (errors) throw new Error('the bare bulk was refused');
  };
  let made = 0;
  const next = () => Array.from({ length: ENTRIES }, () => violation(made++));
  const figures: number[] = [];
  const baselines: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const figure = await entriesPerSecond(next, (entries) => history.put(entries), seconds);
    const baseline = await entriesPerSecond(next, bulk, seconds);
    if (round === 0) continue;
    figures.push(figure);
    baselines.push(baseline);
  }
  await history.close();
  await client.close();
  await removeIndices(url, prefix);
  return {
    path: `put into the history on Elasticsearch, batches of ${ENTRIES}`,
    figure: perSecond(median(figures)),
    baseline: `${perSecond(median(baselines))} bare bulk`,
    ratio: median(figures.map((figure, round) => figure / (baselines[round] ?? Number.NaN))),
    bar: '-',
    holds: null,
  };
}

async function entriesPerSecond(
  next: () => readonly HistoryEntry[],
  put: (entries: readonly HistoryEntry[]) => Promise<void>,
  seconds: number,
): Promise<number> {
  const startedAt = performance.now();
  let calls = 0;
  for (; performance.now() - startedAt < seconds * 1_000; calls++) await put(next());
  return (calls * ENTRIES) / ((performance.now() - startedAt) / 1_000);
}

function violation(n: number): HistoryEntry {
  const [contract, path] = [`0192f0c1-7c7b-7d53-8a55-00000000000${n % 8}`, `/properties/field_${n % 20}`];
  return {
    kind: 'violation',
    id: `0192f0c1-7c7b-5d53-8a55-${n.toString(16).padStart(12, '0')}`,
    workspaceId: `0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a0${n % 4}`,
    at: Date.now(),
    version: 1,
    facets: { contract_id: contract, kind: 'type', path, action: 'warned' },
    body: {
      contract_id: contract,
      contract_version: 3,
      message_id: `message-${n}`,
      event_type: 'track',
      event_name: 'Order Completed',
      kind: 'type',
      path,
      message: 'must be number, and is a string',
      action: 'warned',
    },
  };
}
