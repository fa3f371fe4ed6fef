/** What a request holds of the room, until it gives it back. */
export interface HeldRoom {
  /** Holds so many bytes instead; false, and nothing changes, where there is no room for more. */
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
    const resize = (to: number): boolean => {
      if (to > own && this.#held - own + to > this.#bytes) return false;
      this.#held += to - own;
      own = to;
      return true;
    };
    return resize(bytes) ? { resize, release: () => void resize(0) } : undefined;
  }
}
