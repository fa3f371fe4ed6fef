/** What many have in common, made once, and kept for as long as one of them has it. */
export class InCommon<Value extends object> {
  readonly #made = new Map<string, WeakRef<Value>>();
  readonly #unused = new FinalizationRegistry<string>((text) => {
    if (this.#made.get(text)?.deref() === undefined) this.#made.delete(text);
  });

  /** What the text stands for, which it tells all of; throws as `make` does. */
  of(text: string, make: () => Value): Value {
    const known = this.#made.get(text)?.deref();
    if (known !== undefined) return known;
    const value = make();
    this.#made.set(text, new WeakRef(value));
    this.#unused.register(value, text);
    return value;
  }
}
