import {
  type DedupeClaim,
  type Deduplicator,
  ENVIRONMENTS,
  type FlowContext,
  type FlowStage,
  HEADER,
  InvalidInput,
  type LogEntry,
  type Metrics,
  recordBytes,
  TOPIC,
} from '@tributary/core';
import { type DeliveryReads, readTask } from '../deliver/delivery-task.ts';
import { isCountedByHeaders, redrivenNote } from '../deliver/outcome.ts';
import type { StageName } from '../stages.ts';

/** Redrives claimed by one call of the deduplicator. */
const MAX_DEDUPE_CLAIMS = 500;

export interface DedupeRedrivesDependencies {
  readonly deduplicator: Pick<Deduplicator, 'claim'>;
  readonly metrics: Metrics;
  /** For the events by which redriven deliveries are counted. */
  readonly reads: Pick<DeliveryReads, 'taskWithEvent'>;
}

/**
 * Deduplicates redrives of dead deliveries at the start of a stage. Two API calls, or one that is repeated after a crash, may
 * redrive the same dead delivery: the entry with the first dedupe claim continues to `handle`, the others emit nothing. The
 * claim belongs to the position of the entry, so the same entry continues again after a crash.
 *
 * Only entries of `topic` claim. Their header is removed, so that no output record claims a second time.
 */
export function dedupeRedrives(
  { deduplicator, metrics, reads }: DedupeRedrivesDependencies,
  stage: StageName,
  topic: string,
  handle: FlowStage['handle'],
): FlowStage['handle'] {
  const claims = new SharedDedupeClaims(deduplicator);
  return (entry, context) => {
    const death = entry.headers[HEADER.redriveOf];
    if (death === undefined) return handle(entry, context);
    const { [HEADER.redriveOf]: _, ...headers } = entry.headers;
    const unmarked = { ...entry, headers };
    if (entry.position.topic !== topic) return handle(unmarked, context);
    const { [HEADER.workspaceId]: scope } = headers;
    // The gateway appended it, and no stage.
    if (scope !== undefined) context.count?.({ scope, received: 0, written: recordBytes(entry) });
    claims
      .claim(dedupeClaimOf(entry, death))
      .then((won) => {
        if (won) {
          // The stage route counts the redrive of a delivery whose rule is applied again.
          if (topic !== TOPIC.deliveries) return handle(unmarked, context);
          return countRedriven(reads, unmarked, context).then(() => handle(unmarked, context));
        }
        metrics.count('tributary_redrives_repeated_total', { stage });
        return context.done([]);
      })
      .catch((thrown) => context.failed(thrown));
    return undefined;
  };
}

async function countRedriven(
  reads: Pick<DeliveryReads, 'taskWithEvent'>,
  entry: LogEntry,
  context: FlowContext,
): Promise<void> {
  const read = readTask(entry, context.bytes);
  const task = isCountedByHeaders(read) ? read : await reads.taskWithEvent(read);
  const note = task && redrivenNote(task);
  if (note !== undefined) context.count?.(note);
}

/** In a namespace apart from the workspace's message ids. Throws `InvalidInput` where a header is missing. */
function dedupeClaimOf({ headers, position }: LogEntry, death: string): DedupeClaim {
  const workspaceId = headers[HEADER.workspaceId];
  const environment = ENVIRONMENTS.find((known) => known === headers[HEADER.environment]);
  if (workspaceId === undefined || environment === undefined)
    throw new InvalidInput('a redrive without its workspace or environment');
  return { workspaceId: `redrives:${workspaceId}`, environment, messageId: death, position };
}

/** Batches dedupe claims: those made during a call share the next call, as a bulk redrive brings thousands at once. */
class SharedDedupeClaims {
  readonly #deduplicator: Pick<Deduplicator, 'claim'>;
  #waiting: { readonly dedupeClaim: DedupeClaim; readonly asked: PromiseWithResolvers<boolean> }[] = [];
  #isCalling = false;

  constructor(deduplicator: Pick<Deduplicator, 'claim'>) {
    this.#deduplicator = deduplicator;
  }

  claim(dedupeClaim: DedupeClaim): Promise<boolean> {
    const asked = Promise.withResolvers<boolean>();
    this.#waiting.push({ dedupeClaim, asked });
    if (!this.#isCalling) {
      this.#isCalling = true;
      setImmediate(() => void this.#call());
    }
    return asked.promise;
  }

  async #call(): Promise<void> {
    while (this.#waiting.length > 0) {
      const claims = this.#waiting.splice(0, MAX_DEDUPE_CLAIMS);
      try {
        const won = await this.#deduplicator.claim(claims.map(({ dedupeClaim }) => dedupeClaim));
        for (const [index, { asked }] of claims.entries()) asked.resolve(won[index] === true);
      } catch (error) {
        for (const { asked } of claims) asked.reject(error);
      }
    }
    this.#isCalling = false;
  }
}
