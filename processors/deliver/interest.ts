/** Told once when the interest in what it does is lost. */
export interface Follower {
  lost(): void;
}

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
  readonly #follower: Follower;
  #followed: Set<Interest> | undefined;
  #lost = false;

  constructor(follower: Follower) {
    this.#follower = follower;
  }

  get isLost(): boolean {
    return this.#lost;
  }

  /** From now on it ends with this signal alone. */
  follow(signal: AbortSignal): void {
    this.release();
    if (signal.aborted) {
      this.lose();
      return;
    }
    this.#followed = followersOf(signal);
    this.#followed.add(this);
  }

  /** From now on no signal ends it. */
  release(): void {
    this.#followed?.delete(this);
    this.#followed = undefined;
  }

  /** The signal followed fired. */
  lose(): void {
    if (this.#lost) return;
    this.#lost = true;
    this.#follower.lost();
  }
}
