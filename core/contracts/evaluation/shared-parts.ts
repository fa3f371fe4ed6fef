import type { Format } from 'ajv';
import { meteredFormats } from '../definition/formats.ts';
import { compilePattern, type Pattern } from '../definition/patterns.ts';
import { canonicalJson } from '../json-values.ts';
import { WorkMeter } from '../work.ts';
import { type Assertions, ValueCheck } from './quick-check.ts';

/**
 * The parts that the schemas of one evaluator share, as they evaluate one after the other: the meter, and whatever spends
 * from it. A pattern in use holds tens of kilobytes of states, so thousands of contracts with patterns of their own would
 * find none of them in a cache of the processor.
 */
export class SharedParts {
  readonly meter = new WorkMeter();
  readonly formats: Readonly<Record<string, Format>> = meteredFormats(this.meter);
  readonly #patterns = new Interned<Pattern>();
  readonly #checks = new Interned<ValueCheck>();

  /** The pattern of a source; throws as `compilePattern` does. */
  pattern(source: string): Pattern {
    return this.#patterns.of(source, () => compilePattern(source, this.meter));
  }

  /** The quick check of assertions that concern a value without its members. */
  valueCheck(assertions: Assertions): ValueCheck {
    return this.#checks.of(canonicalJson(assertions), () => new ValueCheck(assertions, this));
  }
}

/** Values by a text that determines them, each made once and kept for as long as it is in use. */
class Interned<Value extends object> {
  readonly #made = new Map<string, WeakRef<Value>>();
  readonly #unused = new FinalizationRegistry<string>((text) => {
    if (this.#made.get(text)?.deref() === undefined) this.#made.delete(text);
  });

  of(text: string, make: () => Value): Value {
    const known = this.#made.get(text)?.deref();
    if (known !== undefined) return known;
    const value = make();
    this.#made.set(text, new WeakRef(value));
    this.#unused.register(value, text);
    return value;
  }
}
