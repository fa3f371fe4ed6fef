import {
  type BatchStage,
  EventLoopYielder,
  type HealthBoard,
  type LoadsValue,
  messageOf,
  parseObject,
  partitionOf,
  TOPIC,
} from '@tributary/core';
import { type AlertLimits, type DestinationReport, HealthRounds } from '../deliver/health.ts';
import { type LoaderDependencies, type LoadGauges, WarehouseLoader } from './loader.ts';
import { LoadRecords } from './records.ts';
import { LoadTurns } from './turns.ts';

/** Batches that are held in memory at a time: each takes up to 70 MB with its rows. */
const BATCHES_AT_ONCE = 2;
/** Bounds on a batch. */
const BOUNDS = { entries: 10_000, bytes: 8 * 1024 * 1024 };
/** How often it is looked which destinations this process loads, ms. */
const ROUND_MS = 1_000;
/** Warehouses with a gauge of their own; the others share one. */
const NAMED = 100;
const OTHERS = 'other';

export interface LoadsDependencies extends Omit<LoaderDependencies, 'log' | 'records' | 'turns' | 'bounds'> {
  readonly log: LoaderDependencies['log'] & ConstructorParameters<typeof LoadRecords>[0];
  readonly healthBoard?: HealthBoard | undefined;
  readonly condition: AlertLimits;
}

/** Tells which partitions of `loads` this process owns. */
type Owned = () => readonly { readonly topic: string; readonly partition: number }[];

/**
 * The loaders of this process: one for each warehouse whose id belongs to a partition of `loads` that the process owns. Two
 * processes that load one warehouse for a moment are harmless, as its ledger takes one batch of both.
 */
export class Loads {
  readonly #dependencies: LoadsDependencies;
  readonly #loaders = new Map<string, WarehouseLoader>();
  readonly #closing = new Set<Promise<void>>();
  readonly #records: LoadRecords;
  readonly #turns = new LoadTurns(BATCHES_AT_ONCE);
  readonly #health: HealthRounds;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();
  #isClosed = false;
  #seen = '';
  #measured = new Set<string>();

  constructor(dependencies: LoadsDependencies) {
    this.#dependencies = dependencies;
    this.#records = new LoadRecords(dependencies.log, dependencies.catalog);
    this.#health = new HealthRounds(dependencies, this);
  }

  /** Starts the rounds that begin and end loaders. */
  begin(owned: Owned): void {
    if (this.#isClosed) return;
    this.#running = this.#round(owned).finally(() => {
      if (!this.#isClosed) this.#timer = setTimeout(() => this.begin(owned), ROUND_MS).unref();
    });
  }

  /** Ends the loads under way. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#running;
    for (const id of [...this.#loaders.keys()]) this.#end(id);
    await Promise.all(this.#closing);
  }

  /** Loads a warehouse at once, if this process loads it. */
  request(destinationId: string): void {
    this.#loaders.get(destinationId)?.request();
  }

  health(): readonly DestinationReport[] {
    return Array.from(this.#loaders.values(), (loader) => loader.health);
  }

  takeCounts() {
    return new Map(Array.from(this.#loaders, ([id, loader]) => [id, loader.takeCounts()]));
  }

  /** Never rejects: the next round repeats what failed. */
  async #round(owned: Owned): Promise<void> {
    try {
      await this.#follow(owned());
      this.#measure();
    } catch (error) {
      const { logger } = this.#dependencies;
      logger.warn({ error: messageOf(error) }, 'the loaders of warehouses cannot be looked after for now');
    }
  }

  /** Begins the loaders of warehouses that are new here, and ends those of others. */
  async #follow(owned: ReturnType<Owned>): Promise<void> {
    const { catalog, elapsed, log } = this.#dependencies;
    const partitions = new Set(
      owned.filter(({ topic }) => topic === TOPIC.loads).map((own) => own.partition),
    );
    const seen = `${catalog.position} ${[...partitions].sort().join()}`;
    if (seen === this.#seen) return;
    const count = log.topics.get(TOPIC.loads)?.partitions ?? 1;
    const wanted = new Set<string>();
    const thread = new EventLoopYielder(elapsed);
    for (const workspaceId of partitions.size === 0 ? [] : catalog.state.workspaceIds()) {
      for (const destination of catalog.state.entities('destination', workspaceId))
        if (destination.warehouse === true && partitions.has(partitionOf(destination.id, count)))
          wanted.add(destination.id);
      if (thread.isYieldDue) await thread.yield();
    }
    for (const id of [...this.#loaders.keys()]) if (!wanted.has(id)) this.#end(id);
    for (const id of wanted) this.#begin(id);
    this.#seen = seen;
  }

  #begin(id: string): void {
    const known = this.#loaders.get(id);
    if (known !== undefined) {
      known.look();
      return;
    }
    const parts = { ...this.#dependencies, records: this.#records, turns: this.#turns, bounds: BOUNDS };
    this.#loaders.set(id, new WarehouseLoader(parts, id));
    this.#health.begin();
  }

  #end(id: string): void {
    const loader = this.#loaders.get(id);
    if (loader === undefined) return;
    this.#loaders.delete(id);
    const closed = loader.close().catch((error: unknown) => {
      this.#dependencies.logger.warn(
        { destination: id, error: messageOf(error) },
        'a warehouse was not closed',
      );
    });
    this.#closing.add(closed);
    void closed.finally(() => this.#closing.delete(closed));
  }

  #measure(): void {
    const { metrics } = this.#dependencies;
    const measured = new Map<string, LoadGauges>();
    for (const [id, { gauges }] of this.#loaders) {
      const name = measured.size < NAMED ? id : OTHERS;
      const { sinceLoad = 0, every = 0 } = measured.get(name) ?? {};
      measured.set(name, {
        sinceLoad: Math.max(sinceLoad, gauges.sinceLoad),
        every: Math.max(every, gauges.every),
      });
    }
    for (const [destination, { sinceLoad, every }] of measured) {
      metrics.gauge('tributary_warehouse_seconds_since_load', sinceLoad, { destination });
      metrics.gauge('tributary_warehouse_load_every_seconds', every, { destination });
    }
    for (const destination of this.#measured) {
      if (measured.has(destination)) continue;
      metrics.removeGauge('tributary_warehouse_seconds_since_load', { destination });
      metrics.removeGauge('tributary_warehouse_load_every_seconds', { destination });
    }
    this.#measured = new Set(measured.keys());
  }
}

/**
 * The stage `load`: its partitions decide which process loads which warehouse. A request on `loads` wakes the loader; the other
 * records of the topic are for the stage `history`.
 */
export function load(loads: Pick<Loads, 'request'> | undefined): BatchStage['process'] {
  return async ({ entries }) => {
    for (const entry of entries) {
      const value = parseObject(entry.value) as unknown as LoadsValue;
      if (value.kind === 'requested') loads?.request(value.destination_id);
    }
    return [];
  };
}
