/** What many have in common, made once, and kept for as long as one of them has it. */
export class InCommon<Value extends object> {
  readonly #make: (text: string) => Value;
  readonly #made = new Map<string, WeakRef<Value>>();
  readonly #unused = new FinalizationRegistry<string>((text) => {
    if (this.#made.get(text)?.deref() === undefined) this.#made.delete(text);
  });

  /** `make` tells from a text all there is to what it stands for. */
  constructor(make: (text: string) => Value) {
    this.#make = make;
  }

  /** What the text stands for; throws as `make` does. */
  of(text: string): Value {
    const known = this.#made.get(text)?.deref();
    if (known !== undefined) return known;
    const value = this.#make(text);
    this.#made.set(text, new WeakRef(value));
    this.#unused.register(value, text);
    return value;
  }
}
