import { parseArgs } from 'node:util';
import { GROWTH, LONG, OPERATIONS, SHORT } from './forms.ts';
import { runForm } from './run.ts';

/**
 * `npm run chaos` runs the long form; `--short` the short one; `--growth` grows topics under load and kills;
 * `--operations` is a rolling restart, a restart of the broker and a growth. `--events` and `--seed` (or
 * TRIBUTARY_CHAOS_SEED) override the form.
 */
const { values } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    growth: { type: 'boolean', default: false },
    operations: { type: 'boolean', default: false },
    events: { type: 'string' },
    seed: { type: 'string' },
  },
});
const seed = Number(values.seed ?? process.env.TRIBUTARY_CHAOS_SEED ?? Date.now() % 1_000_000);
const chosen = values.growth ? GROWTH : values.operations ? OPERATIONS : values.short ? SHORT : LONG;
const form = values.events === undefined ? chosen : { ...chosen, events: Number(values.events) };
const wrong = await runForm(form, seed, (line) => process.stdout.write(`${line}\n`));
process.exitCode = wrong.length === 0 ? 0 : 1;
