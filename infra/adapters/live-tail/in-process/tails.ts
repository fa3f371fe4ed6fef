import type { Clock, TailBatch, TailLimits } from '@tributary/core';
import type { TailPart } from '../feed/feed.ts';
import { idOf, KeptEvents } from '../feed/kept-events.ts';

/** Characters of all tails together; beyond them, the tail that was idle for longest is dropped as a whole. */
const MAX_CHARACTERS = 32 * 1024 * 1024;

interface Tail {
  readonly era: string;
  readonly kept: KeptEvents;
  /** Time of the last append, ms. */
  touchedAt: number;
}

export interface TailsOptions {
  readonly limits: TailLimits;
  /** A monotonic clock, ms. */
  readonly elapsed: Clock;
  /** Unique for each process: small letters and digits. */
  readonly processId: string;
}

/**
 * The tails of all workspaces in the memory of one thread. Holds references to the texts of the appended events: events
 * without a follower are neither copied nor parsed.
 */
export class Tails {
  readonly #options: TailsOptions;
  /** In the order of the last append, the oldest first. */
  readonly #tails = new Map<string, Tail>();
  /** The offset up to which events were appended (exclusive), by partition. */
  readonly #marks = new Map<string, number>();
  readonly #listeners = new Set<(workspaceId: string) => void>();
  #characters = 0;
  #eras = 0;

  constructor(options: TailsOptions) {
    this.#options = options;
  }

  /** Calls `changed` for each workspace with new events. */
  listen(changed: (workspaceId: string) => void): () => void {
    this.#listeners.add(changed);
    return () => this.#listeners.delete(changed);
  }

  /** See `LiveTail`. */
  append({ topic, partition, events, end }: TailBatch): number {
    const source = `${topic}/${partition}`;
    const stored = this.#marks.get(source) ?? 0;
    const mark = end !== undefined && stored > end ? 0 : stored;
    const now = this.#options.elapsed();
    this.#dropExpired(now);
    const changed = new Set<string>();
    let [next, isRepeated] = [mark, false];
    for (const { workspaceId, environment, data, offset } of events) {
      if (offset < mark) {
        isRepeated = true;
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
    for (const workspaceId of changed) this.#moveToEnd(workspaceId);
    this.#dropIdle();
    for (const listener of this.#listeners) for (const workspaceId of changed) listener(workspaceId);
    return isRepeated ? mark : 0;
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
    const era = `${this.#options.processId}${(this.#eras++).toString(36)}`;
    const tail = { era, kept: new KeptEvents(this.#options.limits), touchedAt: now };
    this.#tails.set(workspaceId, tail);
    return tail;
  }

  #moveToEnd(workspaceId: string): void {
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

  #dropIdle(): void {
    for (const [workspaceId, tail] of this.#tails) {
      if (this.#characters <= MAX_CHARACTERS || this.#tails.size === 1) return;
      this.#drop(workspaceId, tail);
    }
  }

  #drop(workspaceId: string, { kept }: Tail): void {
    this.#characters -= kept.characters;
    this.#tails.delete(workspaceId);
  }
}
