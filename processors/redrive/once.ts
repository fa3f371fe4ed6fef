import {
  type DedupeClaim,
  type Deduplicator,
  ENVIRONMENTS,
  type FlowStage,
  HEADER,
  InvalidInput,
  type LogEntry,
  type Metrics,
} from '@tributary/core';
import type { StageName } from '../stage-names.ts';

/** Redrives claimed by one call. */
const MAX_CLAIMED = 500;

export interface RedrivenOnceDependencies {
  readonly deduplicator: Pick<Deduplicator, 'claim'>;
  readonly metrics: Metrics;
}

/**
 * A stage whose entries may begin redrives of dead deliveries. Two calls may begin a redrive of the same death, as may one
 * that is repeated after a crash: the entry that claims the death first goes on to `handle`, the others emit nothing. The
 * claim belongs to the position of the entry, so an entry that is handed over again after a crash goes on again.
 *
 * Only entries of `topic` claim. Their mark is removed here, so none of what they become claims a second time.
 */
export function redrivenOnce(
  { deduplicator, metrics }: RedrivenOnceDependencies,
  stage: StageName,
  topic: string,
  handle: FlowStage['handle'],
): FlowStage['handle'] {
  const claims = new SharedClaims(deduplicator);
  return (entry, context) => {
    const { [HEADER.redriveOf]: death, ...headers } = entry.headers;
    if (death === undefined) return handle(entry, context);
    const unmarked = { ...entry, headers };
    if (entry.position.topic !== topic) return handle(unmarked, context);
    claims
      .claim(claimantOf(entry, death))
      .then((won) => {
        if (won) return handle(unmarked, context);
        metrics.count('tributary_redrives_repeated_total', { stage });
        return context.done([]);
      })
      .catch((thrown) => context.failed(thrown));
    return undefined;
  };
}

/** In a name space of its own beside the message ids of the workspace. Throws `InvalidInput` where a header is missing. */
function claimantOf({ headers, position }: LogEntry, death: string): DedupeClaim {
  const workspaceId = headers[HEADER.workspaceId];
  const environment = ENVIRONMENTS.find((known) => known === headers[HEADER.environment]);
  if (workspaceId === undefined || environment === undefined)
    throw new InvalidInput('a redrive without its workspace or environment');
  return { workspaceId: `redrives:${workspaceId}`, environment, messageId: death, position };
}

/** Claims that are asked for while a call is under way share the next one: a bulk redrive brings thousands at once. */
class SharedClaims {
  readonly #deduplicator: Pick<Deduplicator, 'claim'>;
  #waiting: { readonly claimant: DedupeClaim; readonly asked: PromiseWithResolvers<boolean> }[] = [];
  #isCalling = false;

  constructor(deduplicator: Pick<Deduplicator, 'claim'>) {
    this.#deduplicator = deduplicator;
  }

  claim(claimant: DedupeClaim): Promise<boolean> {
    const asked = Promise.withResolvers<boolean>();
    this.#waiting.push({ claimant, asked });
    if (!this.#isCalling) {
      this.#isCalling = true;
      setImmediate(() => void this.#call());
    }
    return asked.promise;
  }

  async #call(): Promise<void> {
    while (this.#waiting.length > 0) {
      const claims = this.#waiting.splice(0, MAX_CLAIMED);
      try {
        const won = await this.#deduplicator.claim(claims.map(({ claimant }) => claimant));
        for (const [index, { asked }] of claims.entries()) asked.resolve(won[index] === true);
      } catch (error) {
        for (const { asked } of claims) asked.reject(error);
      }
    }
    this.#isCalling = false;
  }
}
