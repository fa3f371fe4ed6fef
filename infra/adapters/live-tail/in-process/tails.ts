import type { Clock, TailBatch, TailLimits } from '@tributary/core';
import { KeptEvents } from '../feed/kept-events.ts';
import { idOf } from '../feed/numbered-event.ts';
import type { TailPart } from '../feed/source.ts';

/** Characters of all tails together; past them the tail that was quiet for longest goes as a whole. */
export const ALL_CHARACTERS = 32 * 1024 * 1024;

interface Tail {
  readonly era: string;
  readonly kept: KeptEvents;
  /** Ms of the last append. */
  touchedAt: number;
}

export interface TailsOptions {
  readonly limits: TailLimits;
  /** Of all tails together. */
  readonly allCharacters?: number;
  /** Ms that never go back. */
  readonly elapsed: Clock;
  /** Names this life of the process among all others: small letters and digits. */
  readonly life: string;
}

/**
 * The tails of all workspaces in the memory of one thread. What is kept are references to what the thread has in hand
 * anyway: an event nobody looks at is neither copied nor parsed.
 */
export class Tails {
  readonly #options: TailsOptions;
  /** The one that was quiet for longest comes first. */
  readonly #tails = new Map<string, Tail>();
  /** Up to which offset (exclusive) events were taken, by partition. */
  readonly #marks = new Map<string, number>();
  readonly #listeners = new Set<(workspaceId: string) => void>();
  #characters = 0;
  #begun = 0;

  constructor(options: TailsOptions) {
    this.#options = options;
  }

  /** Calls `changed` with each workspace whose tail got events. */
  listen(changed: (workspaceId: string) => void): () => void {
    this.#listeners.add(changed);
    return () => this.#listeners.delete(changed);
  }

  /** See `LiveTail`. All of it or nothing. */
  append({ topic, partition, events, end }: TailBatch): number {
    const source = `${topic}/${partition}`;
    const stored = this.#marks.get(source) ?? 0;
    const mark = end !== undefined && stored > end ? 0 : stored;
    const now = this.#options.elapsed();
    this.#dropExpired(now);
    const changed = new Set<string>();
    let [next, isHeld] = [mark, false];
    for (const { workspaceId, environment, data, offset } of events) {
      if (offset < mark) {
        isHeld = true;
        continue;
      }
      next = offset + 1;
      const tail = this.#tailOf(workspaceId, now);
      const number = tail.kept.last + 1;
      const before = tail.kept.characters;
      tail.kept.push({ id: idOf(tail.era, 0, number), era: tail.era, number, environment, data });
      this.#characters += tail.kept.characters - before;
      changed.add(workspaceId);
    }
    this.#marks.set(source, next);
    for (const workspaceId of changed) this.#makeNewest(workspaceId);
    this.#dropQuiet();
    for (const listener of this.#listeners) for (const workspaceId of changed) listener(workspaceId);
    return isHeld ? mark : 0;
  }

  read(workspaceId: string, from: string | undefined): TailPart {
    this.#dropExpired(this.#options.elapsed());
    const tail = this.#tails.get(workspaceId);
    if (tail === undefined) return { events: [], next: from, more: false };
    const [era, number] = (from ?? '').split('-');
    const events = tail.kept.after(era === tail.era ? Number(number) : 0);
    return { events, next: `${tail.era}-${tail.kept.last}`, more: false };
  }

  #tailOf(workspaceId: string, now: number): Tail {
    const known = this.#tails.get(workspaceId);
    if (known !== undefined) {
      known.touchedAt = now;
      return known;
    }
    const era = `${this.#options.life}${(this.#begun++).toString(36)}`;
    const tail = { era, kept: new KeptEvents(this.#options.limits), touchedAt: now };
    this.#tails.set(workspaceId, tail);
    return tail;
  }

  #makeNewest(workspaceId: string): void {
    const tail = this.#tails.get(workspaceId);
    if (tail === undefined) return;
    this.#tails.delete(workspaceId);
    this.#tails.set(workspaceId, tail);
  }

  #dropExpired(now: number): void {
    for (const [workspaceId, tail] of this.#tails) {
      if (now - tail.touchedAt <= this.#options.limits.retentionMs) return;
      this.#drop(workspaceId, tail);
    }
  }

  #dropQuiet(): void {
    const limit = this.#options.allCharacters ?? ALL_CHARACTERS;
    for (const [workspaceId, tail] of this.#tails) {
      if (this.#characters <= limit || this.#tails.size === 1) return;
      this.#drop(workspaceId, tail);
    }
  }

  #drop(workspaceId: string, { kept }: Tail): void {
    this.#characters -= kept.characters;
    this.#tails.delete(workspaceId);
  }
}
