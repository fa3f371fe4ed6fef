import {
  type CanonicalEvent,
  type Contract,
  type ContractVerdict,
  checkSchema,
  createContractEvaluator,
  type SchemaFault,
} from '@tributary/core';
import { LRUCache } from 'lru-cache';

/* The worker process: compiles and evaluates contracts, one task at a time. It ends with its parent. */

/** Sent to a worker. Definitions, contracts and events are JSON texts: serializing is faster than cloning objects. */
export type ContractTask =
  | { readonly kind: 'check'; readonly definition: string }
  | {
      readonly kind: 'evaluate';
      /** Identifies the contract for as long as the workers are open. */
      readonly key: number;
      /** Absent where the worker was sent it before. */
      readonly contract?: string;
      readonly events: string;
    };

/** `unknown`: the worker does not keep the contract of that key any more. */
export type TaskAnswer =
  | { readonly kind: 'ready' }
  | { readonly kind: 'checked'; readonly faults: readonly SchemaFault[] }
  | { readonly kind: 'evaluated'; readonly verdicts: readonly ContractVerdict[] }
  | { readonly kind: 'unknown' };

const answer = (message: TaskAnswer) => process.send?.(message);

/** Contracts kept, compiled or not: their definitions have up to 256 KiB. */
const MAX_KEPT = 200;

/** The weight that the compiled contracts may have. */
const maxCompiledBytes = Number(process.argv[2]);
const evaluator = createContractEvaluator({ maxCompiled: MAX_KEPT, maxBytes: maxCompiledBytes });
const kept = new LRUCache<number, Contract>({ max: MAX_KEPT });

process.on('message', (task) => answer(answerTo(task as ContractTask)));
process.on('disconnect', () => process.exit());
// A signal to the whole process group must not end a task that the parent still waits for.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
answer({ kind: 'ready' });

function answerTo(task: ContractTask): TaskAnswer {
  if (task.kind === 'check') return { kind: 'checked', faults: checkSchema(JSON.parse(task.definition)) };
  const contract = contractOf(task);
  if (contract === undefined) return { kind: 'unknown' };
  const events = JSON.parse(task.events) as readonly CanonicalEvent[];
  return { kind: 'evaluated', verdicts: events.map((event) => evaluator.evaluate(contract, event)) };
}

/** The contract of a task as one object, by which the evaluator finds it in its cache. */
function contractOf({ key, contract }: Extract<ContractTask, { kind: 'evaluate' }>): Contract | undefined {
  const known = kept.get(key) ?? (contract === undefined ? undefined : (JSON.parse(contract) as Contract));
  if (known !== undefined) kept.set(key, known);
  return known;
}
