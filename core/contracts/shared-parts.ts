import type { Format } from 'ajv';
import { meteredFormats } from './formats.ts';
import { compilePattern, type Pattern } from './patterns.ts';
import { WorkMeter } from './work-meter.ts';

/**
 * What the schemas of an evaluator have in common, as one judges at a time: the meter they spend from, and whatever
 * spends from it. A pattern is large while it is used, its states tens of kilobytes; thousands of contracts that each
 * had their own would find none of it in a cache of the processor.
 */
export class SharedParts {
  readonly meter = new WorkMeter();
  readonly formats: Readonly<Record<string, Format>> = meteredFormats(this.meter);
  /** By source. Who uses a pattern keeps it. */
  readonly #patterns = new Map<string, WeakRef<Pattern>>();
  readonly #unused = new FinalizationRegistry<string>((source) => {
    if (this.#patterns.get(source)?.deref() === undefined) this.#patterns.delete(source);
  });

  /** The pattern of a source; throws as `compilePattern` does. */
  pattern(source: string): Pattern {
    const known = this.#patterns.get(source)?.deref();
    if (known !== undefined) return known;
    const pattern = compilePattern(source, this.meter);
    this.#patterns.set(source, new WeakRef(pattern));
    this.#unused.register(pattern, source);
    return pattern;
  }
}
