/** What a request holds of the room, until it gives it back. */
export interface HeldRoom {
  /** Holds so many bytes instead; false, and nothing changes, where there is no room for more. Nothing once it was released. */
  resize(bytes: number): boolean;
  release(): void;
}

/**
 * Room for the bodies that are held at once, bytes. Each has a limit of its own, which says nothing about all of them:
 * when what stands behind the gateway is slow, or clients send slowly, they pile up.
 */
export class BodyRoom {
  readonly #bytes: number;
  #held = 0;

  constructor(bytes: number) {
    this.#bytes = bytes;
  }

  /** Undefined where there is no room. */
  take(bytes: number): HeldRoom | undefined {
    let own = 0;
    let released = false;
    const resize = (to: number): boolean => {
      // Its client left while it was inflated: nobody would give back what it took now.
      if (released) return true;
      if (to > own && this.#held - own + to > this.#bytes) return false;
      this.#held += to - own;
      own = to;
      return true;
    };
    const release = () => {
      resize(0);
      released = true;
    };
    return resize(bytes) ? { resize, release } : undefined;
  }
}
