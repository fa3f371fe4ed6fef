import { type DeliveryOutcome, type NewEntry, TOPIC } from '@tributary/core';
import type { GatewayDependencies } from '../../dependencies.ts';
import { withCursor } from '../../http/lists.ts';
import { outcomeOf } from './presenter.ts';
import { canRedrive, redriveOf } from './redrive.ts';

/** Deliveries one call looks at, at most, and how many of them at a time. */
const MAX_LOOKED_AT = 5_000;
const PAGE = 500;

export interface RedriveSummary {
  readonly redriven: number;
  /** True when the call stopped at its bound. */
  readonly more: boolean;
  /** Where the next call goes on; null when there is no more. */
  readonly cursor: string | null;
}

/**
 * Sets dead deliveries going again. A call that failed may be repeated: what was started twice carries one idempotency
 * key.
 */
export class Redriver {
  readonly #dependencies: Pick<GatewayDependencies, 'log' | 'catalog' | 'history' | 'clock'>;

  constructor(dependencies: Pick<GatewayDependencies, 'log' | 'catalog' | 'history' | 'clock'>) {
    this.#dependencies = dependencies;
  }

  /** How many of the outcomes are under way again; those that cannot be are left alone. */
  async redrive(outcomes: readonly DeliveryOutcome[]): Promise<number> {
    const { log, catalog, clock } = this.#dependencies;
    const redrives = outcomes
      .filter((outcome) => canRedrive(outcome, catalog.state))
      .map((outcome) => redriveOf(outcome, clock(), catalog.position));
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
    return redrives.length;
  }

  /**
   * The dead deliveries of a workspace, or of one of its destinations, newest first, from `cursor` on. Who goes on with
   * the cursor of each answer comes to an end, also when nothing can be redriven, and when what was redriven is dead
   * again meanwhile: a delivery keeps its place.
   */
  async redriveAll(
    workspaceId: string,
    { destinationId, cursor }: { readonly destinationId?: string; readonly cursor?: string },
  ): Promise<RedriveSummary> {
    const facets = {
      status: 'dead',
      ...(destinationId === undefined ? {} : { destination_id: destinationId }),
    };
    const { history } = this.#dependencies;
    let redriven = 0;
    let from = cursor;
    for (let lookedAt = 0; lookedAt < MAX_LOOKED_AT; lookedAt += PAGE) {
      const place = from === undefined ? {} : { cursor: from };
      const page = await withCursor(() =>
        history.list({ kind: 'delivery', workspaceId, facets, limit: PAGE, ...place }),
      );
      redriven += await this.redrive(page.entries.map(outcomeOf));
      from = page.next;
      if (from === undefined) return { redriven, more: false, cursor: null };
    }
    return { redriven, more: true, cursor: from ?? null };
  }
}
