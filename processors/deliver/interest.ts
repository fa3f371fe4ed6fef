/**
 * Who follows a signal. A signal looks through all its listeners at each new one, and thousands of deliveries follow
 * the same: they share one listener.
 */
const followers = new WeakMap<AbortSignal, Set<Interest>>();

function followersOf(signal: AbortSignal): Set<Interest> {
  const known = followers.get(signal);
  if (known !== undefined) return known;
  const made = new Set<Interest>();
  followers.set(signal, made);
  signal.addEventListener(
    'abort',
    () => {
      for (const interest of made) interest.lose();
      made.clear();
    },
    { once: true },
  );
  return made;
}

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
    if (signal.aborted) this.lose();
    else followersOf(signal).add(this);
  }

  /** From now on no signal ends it. */
  release(): void {
    if (this.#signal !== undefined) followers.get(this.#signal)?.delete(this);
    this.#signal = undefined;
  }

  /** The signal followed fired. */
  lose(): void {
    this.#lost = true;
    this.onLost();
  }
}
