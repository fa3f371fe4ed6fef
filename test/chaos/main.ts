import { parseArgs } from 'node:util';
import { LONG, SCALING, SHORT } from './forms.ts';
import { runChaos } from './run.ts';
import { runScaling } from './scaling.ts';

/**
 * `npm run chaos` runs the long form; `--short` runs the short one; `--scaling` only adds and removes a
 * processor. `--events` and `--seed` (or TRIBUTARY_CHAOS_SEED) override the form.
 */
const { values } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    scaling: { type: 'boolean', default: false },
    events: { type: 'string' },
    seed: { type: 'string' },
  },
});
const seed = Number(values.seed ?? process.env.TRIBUTARY_CHAOS_SEED ?? Date.now() % 1_000_000);
const events = values.events === undefined ? {} : { events: Number(values.events) };
const tell = (line: string) => process.stdout.write(`${line}\n`);
const wrong = values.scaling
  ? await runScaling({ ...SCALING, ...events, seed }, tell)
  : await runChaos({ ...(values.short ? SHORT : LONG), ...events, seed }, tell);
process.exitCode = wrong.length === 0 ? 0 : 1;
