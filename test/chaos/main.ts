import { parseArgs } from 'node:util';
import { LONG, SHORT } from './forms.ts';
import { runChaos } from './run.ts';

/** `npm run chaos`: the long form, or the short one with `--short`; `--events` and `--seed` override it. */
const { values } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    events: { type: 'string' },
    seed: { type: 'string' },
  },
});
const form = values.short ? SHORT : LONG;
const seed = Number(values.seed ?? process.env.TRIBUTARY_CHAOS_SEED ?? Date.now() % 1_000_000);
const options = { ...form, seed, events: Number(values.events ?? form.events) };
const wrong = await runChaos(options, (line) => process.stdout.write(`${line}\n`));
process.exitCode = wrong.length === 0 ? 0 : 1;
