import {
  BytesTally,
  type DeliveryOutcome,
  deadDeliveryKey,
  HEADER,
  iso,
  type NewEntry,
  outcomeOfEntry,
  recordBytes,
  TOPIC,
} from '@tributary/core';
import type { GatewayDependencies } from '../../dependencies.ts';
import { refuseOutputOverBudget } from '../../limits/storage-budgets.ts';
import { withCursor } from '../../resources/pagination.ts';
import { keptOf } from './delivery-event.ts';
import { type DeliveryFilter, historyQuery, selects } from './delivery-list.ts';
import { canRedrive, headersOf, keyOf, redriveOf } from './redrive.ts';

/** Deliveries that one call reads, at most, and those of one page. */
const MAX_READ = 5_000;
const PAGE = 500;

/** Redrives that a process remembers, about 3 MB. Repetitions of older ones are dropped by the stages. */
const REMEMBERED = 20_000;

interface Summary {
  /** Deliveries that were redriven or discarded. */
  readonly done: number;
  /** True when the call stopped at its limit. */
  readonly more: boolean;
  /** The cursor of the next call; null at the end. */
  readonly cursor: string | null;
}

type Dependencies = Pick<
  GatewayDependencies,
  'log' | 'catalog' | 'history' | 'clock' | 'budgets' | 'metrics'
>;

/** Redrives or discards the deliveries for which it is possible, and returns how many. */
type Act = (outcomes: readonly DeliveryOutcome[]) => Promise<number>;

/**
 * Redrives and discards dead deliveries. A failed call may be repeated: the stages accept one of several redrives of the
 * same death, and discarding is idempotent.
 */
export class DeadDeliveries {
  readonly #dependencies: Dependencies;
  /**
   * The deaths that this process has redriven, oldest first. History shows such a delivery as dead for a moment longer, in
   * which a second call would count it again.
   */
  readonly #redriven = new Set<string>();

  constructor(dependencies: Dependencies) {
    this.#dependencies = dependencies;
  }

  /** 429 where the workspace is over a budget of bytes, also in the middle of many. */
  readonly redrive: Act = async (outcomes) => {
    const [first] = outcomes;
    if (first !== undefined) refuseOutputOverBudget(this.#dependencies, first.delivery.workspace_id);
    const possible = outcomes.filter((outcome) => canRedrive(outcome, this.#dependencies.catalog.state));
    const kept = new Set(
      await keptOf(
        this.#dependencies.log,
        possible.map(({ delivery }) => delivery),
      ),
    );
    const dead = possible.filter(
      (outcome) => kept.has(outcome.delivery) && !this.#redriven.has(deadDeliveryKey(outcome)),
    );
    const deaths = dead.map(deadDeliveryKey);
    for (const death of deaths) this.#redriven.add(death);
    try {
      await this.#appendRedrives(dead);
    } catch (error) {
      // An unknown part is in the log: a repeated call redrives all of them again.
      for (const death of deaths) this.#redriven.delete(death);
      throw error;
    }
    for (const oldest of this.#redriven) {
      if (this.#redriven.size <= REMEMBERED) break;
      this.#redriven.delete(oldest);
    }
    return dead.length;
  };

  async #appendRedrives(dead: readonly DeliveryOutcome[]): Promise<void> {
    const { log, catalog, clock, budgets } = this.#dependencies;
    const redrives = dead.map((outcome) => redriveOf(outcome, clock(), catalog));
    const starts = Map.groupBy(redrives, ({ start }) => start.topic);
    for (const [topic, started] of starts) {
      const entries = started.map(({ start }): NewEntry => start.entry);
      await log.append(topic, entries);
    }
    if (redrives.length === 0) return;
    await log.append(
      TOPIC.outcomes,
      redrives.map(({ outcome }) => outcome),
    );
    const bytes = new BytesTally();
    for (const [at, { start, outcome }] of redrives.entries())
      bytes.written(dead[at]?.delivery.workspace_id ?? '', recordBytes(start.entry) + recordBytes(outcome));
    budgets?.add(bytes);
  }

  readonly discard: Act = async (outcomes) => {
    const { log, catalog, clock } = this.#dependencies;
    const entries = outcomes
      .filter(({ status }) => status === 'dead')
      .map((outcome) => discardOf(outcome, clock(), catalog.position));
    if (entries.length > 0) await log.append(TOPIC.outcomes, entries);
    return entries.length;
  };

  /**
   * Acts on the dead deliveries of a workspace that match the filter, newest first, from `cursor` on. Repeated calls with
   * the returned cursor reach the end, even when deliveries cannot be redriven or die again meanwhile, as a delivery keeps
   * its position in the list.
   */
  async toAll(
    act: Act,
    workspaceId: string,
    filter: DeliveryFilter,
    cursor: string | undefined,
  ): Promise<Summary> {
    const { history } = this.#dependencies;
    const query = { ...historyQuery(workspaceId, filter, 'dead'), limit: PAGE, details: true };
    const isSelected = selects(filter);
    let done = 0;
    let from = cursor;
    for (let readCount = 0; readCount < MAX_READ; readCount += PAGE) {
      const position = from === undefined ? {} : { cursor: from };
      const page = await withCursor(() => history.list({ ...query, ...position }));
      done += await act(page.entries.map(outcomeOfEntry).filter(isSelected));
      from = page.next;
      if (from === undefined) return { done, more: false, cursor: null };
    }
    return { done, more: true, cursor: from ?? null };
  }
}

/**
 * The entry that discards a dead delivery: it is shown as discarded and no longer redriven by filters. A redrive at the
 * same moment continues, and its outcome is shown in the end.
 */
function discardOf(dead: DeliveryOutcome, now: number, catalogPosition: number): NewEntry {
  const { delivery } = dead;
  const discarded: DeliveryOutcome = { ...dead, status: 'discarded', at: iso(now) };
  return {
    key: keyOf(delivery),
    value: JSON.stringify(discarded),
    headers: { ...headersOf(delivery, catalogPosition), [HEADER.outcome]: 'discarded' },
  };
}
