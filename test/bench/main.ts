import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { gatewayRows } from './gateway-rows.ts';
import { GENERATOR } from './load.ts';
import { latencyRow, throughputRows } from './pipeline-rows.ts';
import { sandboxRow } from './sandbox-row.ts';
import { type BenchRow, drawTable } from './table.ts';

const { values } = parseArgs({
  options: {
    /** gateway, sandbox, pipeline, latency; all when absent. */
    only: { type: 'string' },
    /** Fewer rounds and events: a look, not a figure to quote. */
    quick: { type: 'boolean', default: false },
    /** Also writes the rows as JSON. */
    json: { type: 'string' },
  },
});

const quick = values.quick;
const suites: Readonly<Record<string, () => Promise<readonly BenchRow[]>>> = {
  gateway: () => gatewayRows({ rounds: quick ? 1 : 5, seconds: quick ? 3 : 6 }),
  sandbox: async () => [await sandboxRow({ rounds: quick ? 1 : 5 })],
  latency: async () => [await latencyRow({ seconds: quick ? 5 : 20 })],
  pipeline: () => throughputRows({ events: quick ? 100_000 : 1_000_000 }),
};

const rows: BenchRow[] = [];
for (const [name, run] of Object.entries(suites)) {
  if (values.only !== undefined && values.only !== name) continue;
  process.stderr.write(`${name} ...\n`);
  rows.push(...(await run()));
}
process.stdout.write(
  `${drawTable(rows)}\n\nload by ${GENERATOR}; ratios are medians of pairs measured in turns\n`,
);
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(rows, null, 2)}\n`);
process.exitCode = rows.some(({ holds }) => holds === false) ? 1 : 0;
