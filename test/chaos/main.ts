import { parseArgs } from 'node:util';
import { GROWTH, LONG, OPERATIONS, SCALING, SHORT } from './forms.ts';
import { runGrowth } from './growth.ts';
import { runOperations } from './operations.ts';
import { runChaos } from './run.ts';
import { runScaling } from './scaling.ts';

/**
 * `npm run chaos` runs the long form; `--short` runs the short one; `--scaling` only adds and removes a
 * processor; `--growth` grows topics under load and kills; `--operations` is a million events with a rolling restart, a restart of the
 * broker and a growth. `--events` and `--seed` (or TRIBUTARY_CHAOS_SEED) override the form.
 */
const { values } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    scaling: { type: 'boolean', default: false },
    growth: { type: 'boolean', default: false },
    operations: { type: 'boolean', default: false },
    events: { type: 'string' },
    seed: { type: 'string' },
  },
});
const seed = Number(values.seed ?? process.env.TRIBUTARY_CHAOS_SEED ?? Date.now() % 1_000_000);
const events = values.events === undefined ? {} : { events: Number(values.events) };
const tell = (line: string) => process.stdout.write(`${line}\n`);
const run = () => {
  if (values.scaling) return runScaling({ ...SCALING, ...events, seed }, tell);
  if (values.growth) return runGrowth({ ...GROWTH, ...events, seed }, tell);
  if (values.operations) return runOperations({ ...OPERATIONS, ...events }, tell);
  return runChaos({ ...(values.short ? SHORT : LONG), ...events, seed }, tell);
};
const wrong = await run();
process.exitCode = wrong.length === 0 ? 0 : 1;
