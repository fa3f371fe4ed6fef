/** Random numbers that a seed reproduces. */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** At least 0, less than 1. */
  roll(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  between(least: number, most: number): number {
    return least + this.roll() * (most - least);
  }

  pick<T>(from: readonly [T, ...T[]]): T {
    return from[Math.floor(this.roll() * from.length)] ?? from[0];
  }

  /** True in this share of the cases. */
  falls(share: number): boolean {
    return this.roll() < share;
  }
}
