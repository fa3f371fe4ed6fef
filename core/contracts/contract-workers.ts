import type { Contract } from '../catalog/entities.ts';
import type { CanonicalEvent, JsonObject } from '../event/event.ts';
import type { ContractVerdict, SchemaFault } from './contract.ts';

/** Events of one `evaluate` at most: with the bound on the work of one event it ends in a fraction of a second. */
export const MAX_EVENTS_A_TASK = 64;

export interface ContractTaskOptions {
  /** Once it fires, a task that still waits is dropped, and its promise rejects with `Overloaded`. */
  readonly gone?: AbortSignal;
}

/**
 * Compiles and evaluates contracts outside the thread of its caller, which may take as long as a workspace makes them.
 *
 * Promises: the answers are those of `checkSchema` and of a `ContractEvaluator`. The caller's thread is held for no
 * longer than it takes to write the arguments as JSON.
 *
 * Ordering: tasks of one workspace run one at a time, in the order of their calls; workspaces take turns, task by task,
 * however many tasks each has waiting.
 *
 * Limits: tasks waiting of one workspace and of all, time and memory of one task; up to `MAX_EVENTS_A_TASK` events.
 *
 * Errors: `Overloaded` where too many tasks wait. `Unavailable` from `evaluate` for a task that exceeded its time or
 * memory, and from both while no thread can be started or after `close`. A definition that exceeds the time or memory of
 * a task has a fault instead.
 *
 * An implementer must not let a task end the process, nor give a task that failed to another thread.
 */
export interface ContractWorkers {
  /** Why a definition cannot be a contract; empty when it can. */
  check(
    workspaceId: string,
    definition: JsonObject,
    options?: ContractTaskOptions,
  ): Promise<readonly SchemaFault[]>;
  /** The verdicts on events, in their order. */
  evaluate(
    contract: Contract,
    events: readonly CanonicalEvent[],
    options?: ContractTaskOptions,
  ): Promise<readonly ContractVerdict[]>;
  close(): Promise<void>;
}
