import {
  type DeliveryOutcome,
  deathOf,
  deliveryKey,
  HEADER,
  iso,
  type NewEntry,
  outcomeOfEntry,
  TOPIC,
} from '@tributary/core';
import type { GatewayDependencies } from '../../dependencies.ts';
import { withCursor } from '../../resources/pagination.ts';
import { type DeliveryFilter, meant, narrowed } from './delivery-list.ts';
import { canRedrive, headersOf, redriveOf } from './redrive.ts';

/** Deliveries one call looks at, at most, and how many of them at a time. */
const MAX_LOOKED_AT = 5_000;
const PAGE = 500;

/** Redrives that a process remembers, about 3 MB; of older ones the stages drop what is repeated. */
const REMEMBERED = 20_000;

interface Summary {
  /** How many it was done to. */
  readonly done: number;
  /** True when the call stopped at its bound. */
  readonly more: boolean;
  /** Where the next call goes on; null when there is no more. */
  readonly cursor: string | null;
}

type Dependencies = Pick<GatewayDependencies, 'log' | 'catalog' | 'history' | 'clock'>;

/** Does something to outcomes; how many it did it to. Others are left alone. */
type Act = (outcomes: readonly DeliveryOutcome[]) => Promise<number>;

/**
 * What people do to dead deliveries. A call that failed may be repeated: of several redrives of one death the stages take
 * one, and what is discarded twice is discarded.
 */
export class DeadDeliveries {
  readonly #dependencies: Dependencies;
  /**
   * The deaths that this process began redrives of, oldest first. History shows a delivery as dead for a moment longer:
   * without this a second call would count it again.
   */
  readonly #redriven = new Set<string>();

  constructor(dependencies: Dependencies) {
    this.#dependencies = dependencies;
  }

  readonly redrive: Act = async (outcomes) => {
    const dead = outcomes.filter(
      (outcome) =>
        canRedrive(outcome, this.#dependencies.catalog.state) && !this.#redriven.has(deathOf(outcome)),
    );
    const deaths = dead.map(deathOf);
    for (const death of deaths) this.#redriven.add(death);
    try {
      await this.#begin(dead);
    } catch (error) {
      // How much of it is in the log is not known: a repeated call begins all of it again.
      for (const death of deaths) this.#redriven.delete(death);
      throw error;
    }
    for (const oldest of this.#redriven) {
      if (this.#redriven.size <= REMEMBERED) break;
      this.#redriven.delete(oldest);
    }
    return dead.length;
  };

  async #begin(dead: readonly DeliveryOutcome[]): Promise<void> {
    const { log, catalog, clock } = this.#dependencies;
    const redrives = dead.map((outcome) => redriveOf(outcome, clock(), catalog));
    const starts = Map.groupBy(redrives, ({ start }) => start.topic);
    for (const [topic, started] of starts) {
      const entries = started.map(({ start }): NewEntry => start.entry);
      await log.append(topic, entries);
    }
    if (redrives.length > 0)
      await log.append(
        TOPIC.outcomes,
        redrives.map(({ outcome }) => outcome),
      );
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
   * The dead deliveries of a workspace that the filter means, newest first, from `cursor` on. Who goes on with the
   * cursor of each answer comes to an end, also when nothing can be done, and when what was redriven is dead again
   * meanwhile: a delivery keeps its place.
   */
  async toAll(
    act: Act,
    workspaceId: string,
    filter: DeliveryFilter,
    cursor: string | undefined,
  ): Promise<Summary> {
    const { history } = this.#dependencies;
    const query = { ...narrowed(workspaceId, filter, 'dead'), limit: PAGE, details: true };
    const isMeant = meant(filter);
    let done = 0;
    let from = cursor;
    for (let lookedAt = 0; lookedAt < MAX_LOOKED_AT; lookedAt += PAGE) {
      const place = from === undefined ? {} : { cursor: from };
      const page = await withCursor(() => history.list({ ...query, ...place }));
      done += await act(page.entries.map(outcomeOfEntry).filter(isMeant));
      from = page.next;
      if (from === undefined) return { done, more: false, cursor: null };
    }
    return { done, more: true, cursor: from ?? null };
  }
}

/**
 * The entry that lets a dead delivery be: from then on it is shown as discarded and not redriven. Where somebody
 * redrives it at the same moment the redrive goes on, and what comes of that is shown in the end.
 */
function discardOf(dead: DeliveryOutcome, now: number, catalogPosition: number): NewEntry {
  const { delivery } = dead;
  const discarded: DeliveryOutcome = { ...dead, status: 'discarded', at: iso(now) };
  return {
    key: deliveryKey(delivery),
    value: JSON.stringify(discarded),
    headers: { ...headersOf(delivery, catalogPosition), [HEADER.outcome]: 'discarded' },
  };
}
