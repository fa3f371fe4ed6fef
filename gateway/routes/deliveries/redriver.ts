import { type DeliveryOutcome, type NewEntry, TOPIC } from '@tributary/core';
import type { GatewayDependencies } from '../../dependencies.ts';
import { outcomeOf } from './presenter.ts';
import { canRedrive, redriveOf } from './redrive.ts';

/** Deliveries one call looks at, at most, and how many of them at a time. */
const MAX_LOOKED_AT = 10_000;
const PAGE = 500;

export interface RedriveSummary {
  readonly redriven: number;
  /** True when the call stopped at its bound. */
  readonly more: boolean;
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

  /** All dead deliveries of a workspace, or of one of its destinations, newest first, page by page. */
  async redriveAll(workspaceId: string, destinationId: string | undefined): Promise<RedriveSummary> {
    const facets = {
      status: 'dead',
      ...(destinationId === undefined ? {} : { destination_id: destinationId }),
    };
    let redriven = 0;
    let cursor: string | undefined;
    for (let lookedAt = 0; lookedAt < MAX_LOOKED_AT; lookedAt += PAGE) {
      const page = await this.#dependencies.history.list({
        kind: 'delivery',
        workspaceId,
        facets,
        limit: PAGE,
        ...(cursor === undefined ? {} : { cursor }),
      });
      redriven += await this.redrive(page.entries.map(outcomeOf));
      cursor = page.next;
      if (cursor === undefined) return { redriven, more: false };
    }
    return { redriven, more: true };
  }
}
