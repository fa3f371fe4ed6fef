import type { Format } from 'ajv';
import { meteredFormats } from './formats.ts';
import { InCommon } from './in-common.ts';
import { canonicalJson } from './json-values.ts';
import { compilePattern, type Pattern } from './patterns.ts';
import { type Assertions, PlainValue } from './plain-value.ts';
import { WorkMeter } from './work-meter.ts';

/**
 * What the schemas of an evaluator have in common, as one judges at a time: the meter they spend from, and whatever
 * spends from it. A pattern is large while it is used, its states tens of kilobytes; thousands of contracts that each
 * had their own would find none of it in a cache of the processor.
 */
export class SharedParts {
  readonly meter = new WorkMeter();
  readonly formats: Readonly<Record<string, Format>> = meteredFormats(this.meter);
  readonly #patterns = new InCommon<Pattern>();
  readonly #values = new InCommon<PlainValue>();

  /** The pattern of a source; throws as `compilePattern` does. */
  pattern(source: string): Pattern {
    return this.#patterns.of(source, () => compilePattern(source, this.meter));
  }

  /** What these assertions say of a value by themselves. */
  plainValue(assertions: Assertions): PlainValue {
    return this.#values.of(canonicalJson(assertions), () => new PlainValue(assertions, this));
  }
}
