import {
  HEADER,
  type NewEntry,
  type Position,
  partitionOf,
  type TopicSpec,
  withBounds,
} from '@tributary/core';
import { specOf } from '../topics.ts';
import type { Layouts } from './layouts.ts';

type AppendNow = (
  spec: TopicSpec,
  entries: readonly NewEntry[],
  bytes: number,
) => Promise<readonly Position[]>;

/** An append that waits for the layout of its topic. */
interface Waiting {
  readonly entries: readonly NewEntry[];
  /** `appended` is called once the entries are durable. */
  readonly go: (spec: TopicSpec, entries: readonly NewEntry[], appended: () => void) => void;
  readonly fail: (reason: unknown) => void;
}

/**
 * Appends of this process to topics that are grown while others append as well. An append that has to find out the layout
 * or the ends of older partitions first waits for that, and those behind it wait with it, so that they keep their order.
 */
export class BoundedAppends {
  readonly #layouts: Layouts;
  readonly #appendNow: AppendNow;
  /** By topic, while a look-up is in progress. */
  readonly #waiting = new Map<string, Waiting[]>();
  /** Partitions that this process has bounded a record of since all writers have settled, by topic. */
  readonly #bounded = new Map<string, { readonly spec: TopicSpec; readonly partitions: Set<number> }>();

  constructor(layouts: Layouts, appendNow: AppendNow) {
    this.#layouts = layouts;
    this.#appendNow = appendNow;
  }

  /** `bytes`: of the entries. Rejects as `EventLog.append`; throws `Unavailable` while the layout is not known. */
  append(topic: string, entries: readonly NewEntry[], bytes: number): Promise<readonly Position[]> {
    const spec = specOf(this.#layouts.topics, topic);
    const isCareful = this.#layouts.needsCare(spec);
    const waiting = this.#waiting.get(topic);
    if (waiting === undefined && !isCareful && !this.#isUnbounded(spec, entries))
      return this.#appendNow(spec, entries, bytes);
    return new Promise((resolve, reject) => {
      const append: Waiting = {
        entries,
        go: (by, bounded, appended) =>
          void this.#appendNow(by, bounded, bytes).then((positions) => {
            appended();
            resolve(positions);
          }, reject),
        fail: reject,
      };
      if (waiting !== undefined) {
        waiting.push(append);
        return;
      }
      this.#waiting.set(topic, [append]);
      void this.#goOn(topic);
    });
  }

  /** Resolves the appends of a topic, those of the same time together, until none waits. */
  async #goOn(topic: string): Promise<void> {
    for (;;) {
      const together = this.#waiting.get(topic) ?? [];
      if (together.length === 0) {
        this.#waiting.delete(topic);
        return;
      }
      this.#waiting.set(topic, []);
      try {
        await this.#appendBounded(topic, together);
      } catch (thrown) {
        for (const { fail } of together) fail(thrown);
      }
    }
  }

  async #appendBounded(topic: string, together: readonly Waiting[]): Promise<void> {
    const layouts = this.#layouts;
    if (layouts.needsCare(specOf(layouts.topics, topic))) await layouts.caughtUp();
    // Partitions and bounds are of one layout, also where another is adopted meanwhile.
    const spec = specOf(layouts.topics, topic);
    const isCareful = layouts.needsCare(spec);
    const targetsOf = ({ entries }: Waiting) =>
      new Set(entries.map(({ key }) => partitionOf(key, spec.partitions)));
    const targets = new Set(together.flatMap((waiting) => [...targetsOf(waiting)]));
    const bounds = await layouts.boundsOf(spec, targets, isCareful ? 'careful' : 'other');
    const bounded = (entry: NewEntry): NewEntry => {
      const of = bounds.get(partitionOf(entry.key, spec.partitions));
      return of === undefined ? entry : { ...entry, headers: withBounds(entry.headers, HEADER.after, of) };
    };
    for (const waiting of together)
      waiting.go(spec, waiting.entries.map(bounded), () => {
        if (!isCareful) this.#noteBounded(spec, targetsOf(waiting));
      });
  }

  /** Whether one of the entries may be the first of this process in an added partition. */
  #isUnbounded(spec: TopicSpec, entries: readonly NewEntry[]): boolean {
    const { name, partitions, earlier, unordered } = spec;
    const [old] = earlier ?? [];
    if (old === undefined || unordered === true) return false;
    const bounded = this.#bounded.get(name);
    if (bounded?.spec !== spec) return true;
    if (bounded.partitions.size === partitions - old) return false;
    return entries.some(({ key }) => {
      const partition = partitionOf(key, partitions);
      return partition >= old && !bounded.partitions.has(partition);
    });
  }

  #noteBounded(spec: TopicSpec, targets: ReadonlySet<number>): void {
    const before = this.#bounded.get(spec.name);
    const bounded = before?.spec === spec ? before : { spec, partitions: new Set<number>() };
    const [old = spec.partitions] = spec.earlier ?? [];
    for (const partition of targets) if (partition >= old) bounded.partitions.add(partition);
    this.#bounded.set(spec.name, bounded);
  }
}
