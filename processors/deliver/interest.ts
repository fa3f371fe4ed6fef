/**
 * Whether somebody waits for a delivery: the stage that began it, nobody for a while once it was handed over, then the
 * stage that joined it. It is lost for good when the signal followed fires.
 */
export class Interest {
  #signal: AbortSignal | undefined;
  #lost = false;
  /** Called once, when the interest is lost. */
  onLost: () => void = () => {};

  constructor(signal: AbortSignal) {
    this.follow(signal);
  }

  get lost(): boolean {
    return this.#lost;
  }

  /** From now on it ends with this signal alone. */
  follow(signal: AbortSignal): void {
    this.release();
    this.#signal = signal;
    if (signal.aborted) this.#lose();
    else signal.addEventListener('abort', this.#lose, { once: true });
  }

  /** From now on no signal ends it. */
  release(): void {
    this.#signal?.removeEventListener('abort', this.#lose);
    this.#signal = undefined;
  }

  readonly #lose = (): void => {
    this.#lost = true;
    this.onLost();
  };
}
