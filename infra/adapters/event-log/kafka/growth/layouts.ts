import {
  ancestorsOf,
  type Bounds,
  boundAt,
  type Clock,
  isCareful,
  type KnownLayout,
  type LayoutSource,
  type Logger,
  type TopicLayout,
  type TopicSpec,
  Unavailable,
} from '@tributary/core';
import { sharedByCallers } from '../../stage-runner/work.ts';
import type { KafkaClient } from '../client/client.ts';
import { appendedEnds, offsetAt } from '../client/offsets.ts';

/** How long to wait for the catalog to be read up to its end, ms. */
const CATCH_UP_MS = 5_000;

export interface LayoutsOptions {
  /** As configured; replaced by the layouts of the catalog. */
  readonly topics: ReadonlyMap<string, TopicSpec>;
  readonly client: KafkaClient;
  /** The name of a topic in Kafka. */
  readonly nameOf: (topic: string) => string;
  /** Epoch ms. */
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * The partitions of each topic as the catalog says, for writers and readers of this process. Without a catalog the
 * configured ones, as in tests of the log alone.
 */
export class Layouts {
  /** Changes when a growth is adopted. */
  readonly topics: ReadonlyMap<string, TopicSpec>;
  readonly #topics: Map<string, TopicSpec>;
  readonly #options: LayoutsOptions;
  #source: LayoutSource | undefined;
  readonly #known = new Map<string, KnownLayout>();
  readonly #listeners = new Set<() => void>();

  constructor(options: LayoutsOptions) {
    this.#options = options;
    this.#topics = new Map(options.topics);
    this.topics = this.#topics;
  }

  /** Follows a catalog; the returned function is to be called when its layouts changed. */
  follow(source: LayoutSource): () => void {
    this.#source = source;
    return () => this.#apply(source.state.layouts);
  }

  /** Calls the listener after a growth was adopted, until the returned function is called. */
  onGrowth(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Resolves when this process knows every layout that was adopted before the call. Calls of the same time share a
   * look-up. `Unavailable` where the catalog does not answer.
   */
  readonly caughtUp: () => Promise<void> = sharedByCallers(async () => this.#source?.catchUp(CATCH_UP_MS));

  /**
   * Whether an append to a topic has to find out the newest layout first. `Unavailable` while the catalog is not
   * trusted: it may have missed the announcement of a growth.
   */
  needsCare({ name, fixed, unordered }: TopicSpec): boolean {
    if (this.#source === undefined || fixed === true) return false;
    if (!this.#source.ready)
      throw new Unavailable(`the partitions of ${name} are not known: the catalog is not read up to now`);
    const known = this.#known.get(name);
    if (known === undefined || unordered === true) return false;
    return isCareful(known, this.#options.clock());
  }

  /**
   * The bounds of the first records that a writer appends to these partitions. Those without ancestors, and those whose
   * ancestors hold no record of their keys any more, have none. `careful`: up to the ends of the ancestors.
   */
  async boundsOf(
    { name, earlier, unordered, retentionMs }: TopicSpec,
    partitions: Iterable<number>,
    writer: 'owner' | 'other' | 'careful',
  ): Promise<ReadonlyMap<number, Bounds>> {
    const bounds = new Map<number, Map<number, number>>();
    const known = this.#known.get(name);
    if (known === undefined || unordered === true || earlier === undefined) return bounds;
    const nowMs = this.#options.clock();
    const at = writer === 'careful' ? 'end' : boundAt(known, { nowMs, retentionMs, writer });
    if (at === undefined) return bounds;
    const ancestors = new Map([...partitions].map((each) => [each, ancestorsOf(each, earlier)]));
    const offsets = await this.#offsets(name, new Set([...ancestors.values()].flat()), at);
    for (const [partition, of] of ancestors)
      if (of.length > 0) bounds.set(partition, new Map(of.map((each) => [each, offsets.get(each) ?? 0])));
    return bounds;
  }

  async #offsets(
    topic: string,
    partitions: ReadonlySet<number>,
    at: Exclude<ReturnType<typeof boundAt>, undefined>,
  ): Promise<ReadonlyMap<number, number>> {
    const { client, nameOf } = this.#options;
    const name = nameOf(topic);
    if (at === 'end') {
      const ends = await appendedEnds(
        client,
        [...partitions].map((partition) => ({ topic: name, partition })),
      );
      return new Map([...partitions].map((partition) => [partition, ends.get(`${name}/${partition}`) ?? 0]));
    }
    const found = [...partitions].map(async (partition) => {
      const offset = await offsetAt(client, name, partition, at.appendedAfterMs);
      return [partition, offset] as const;
    });
    return new Map(await Promise.all(found));
  }

  #apply(layouts: ReadonlyMap<string, TopicLayout>): void {
    let hasGrown = false;
    for (const [topic, layout] of layouts) {
      const spec = this.#topics.get(topic);
      if (this.#known.get(topic)?.layout === layout || spec === undefined) continue;
      this.#known.set(topic, { layout, learnedAtMs: this.#options.clock() });
      const { partitions, earlier } = layout;
      if (earlier.length === 0 || (spec.partitions === partitions && spec.earlier !== undefined)) continue;
      this.#topics.set(topic, { ...spec, partitions, earlier });
      this.#options.logger.info({ topic, partitions, earlier }, 'the topic has more partitions from now on');
      hasGrown = true;
    }
    if (hasGrown) for (const listener of this.#listeners) listener();
  }
}
