import type { TailFollower, TailItem } from '@tributary/core';
import type { KeptEvents } from './kept-events.ts';

/** What a follower looks at: the copy of a tail that all of a process share. */
export interface Followed {
  readonly kept: KeptEvents;
  /** Grows when the tail began anew: numbers of before mean nothing any more. */
  readonly generation: number;
  /** Grows when nobody knows what came between two events. */
  readonly losses: number;
  readonly isInterrupted: boolean;
}

/** A place in a feed. */
export class FeedFollower implements TailFollower {
  readonly #feed: Followed;
  readonly #wake: () => void;
  readonly #onClose: () => void;
  #generation: number;
  #losses: number;
  /** Number of the last event that was taken. */
  #number: number;
  #place: string | undefined;
  #wasInterrupted = false;
  #closed = false;

  constructor(
    feed: Followed,
    { number, isLost }: { readonly number: number; readonly isLost: boolean },
    wake: () => void,
    onClose: () => void,
  ) {
    this.#feed = feed;
    this.#generation = feed.generation;
    this.#losses = feed.losses - (isLost ? 1 : 0);
    this.#number = number;
    this.#place = feed.kept.at(number)?.id;
    this.#wake = wake;
    this.#onClose = onClose;
  }

  get place(): string | undefined {
    return this.#place;
  }

  take(maxCharacters: number): readonly TailItem[] {
    const items: TailItem[] = [];
    const { kept } = this.#feed;
    this.#noteGaps(items);
    for (let left = maxCharacters; left > 0 && this.#number < kept.last; ) {
      const event = kept.at(this.#number + 1);
      if (event === undefined) break;
      items.push({ kind: 'event', event });
      left -= event.data.length;
      this.#number = event.number;
      this.#place = event.id;
    }
    if (this.#feed.isInterrupted && !this.#wasInterrupted && this.#number === kept.last) {
      this.#wasInterrupted = true;
      items.push({ kind: 'interrupted' });
    }
    return items;
  }

  wake(): void {
    if (!this.#closed) this.#wake();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#onClose();
  }

  #noteGaps(items: TailItem[]): void {
    const { kept, generation, losses, isInterrupted } = this.#feed;
    if (this.#wasInterrupted && !isInterrupted) {
      this.#wasInterrupted = false;
      items.push({ kind: 'resumed' });
    }
    if (this.#generation !== generation) {
      this.#generation = generation;
      this.#number = kept.first - 1;
    }
    if (this.#losses !== losses) {
      this.#losses = losses;
      items.push({ kind: 'missed' });
    }
    const count = kept.first - 1 - this.#number;
    if (count > 0) {
      items.push({ kind: 'missed', count });
      this.#number += count;
    }
  }
}
