/** What was opened, to be closed in the reverse order. */
export class CleanupStack {
  readonly #steps: (() => Promise<void> | void)[] = [];

  /** Closes it later; returns it. */
  use<T extends { close(): Promise<void> | void }>(opened: T): T {
    this.#steps.push(() => opened.close());
    return opened;
  }

  /** Closes everything, also when some of it fails; throws the first failure then. */
  async close(): Promise<void> {
    const failures: unknown[] = [];
    for (const step of this.#steps.splice(0).reverse()) {
      try {
        await step();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}
