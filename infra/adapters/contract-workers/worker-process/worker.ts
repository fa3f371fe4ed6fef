import { type CanonicalEvent, type Contract, checkSchema, createContractEvaluator } from '@tributary/core';
import { LRUCache } from 'lru-cache';
import type { ContractTask, TaskAnswer } from './messages.ts';

/** The process in which contracts are compiled and evaluated: one task at a time. It ends with its parent. */
const answer = (message: TaskAnswer) => process.send?.(message);

/** Contracts kept, compiled or not: their definitions have up to 256 KiB. */
const MAX_KEPT = 200;

/** What the compiled contracts may weigh. */
const maxCompiledBytes = Number(process.argv[2]);
const evaluator = createContractEvaluator({ maxCompiled: MAX_KEPT, maxBytes: maxCompiledBytes });
const kept = new LRUCache<number, Contract>({ max: MAX_KEPT });

process.on('message', (task) => answer(answerTo(task as ContractTask)));
process.on('disconnect', () => process.exit());
// The parent decides: a signal to the whole group must not end a task that the parent still waits for.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
answer({ kind: 'ready' });

function answerTo(task: ContractTask): TaskAnswer {
  if (task.kind === 'check') return { kind: 'checked', faults: checkSchema(JSON.parse(task.definition)) };
  const contract = contractOf(task);
  if (contract === undefined) return { kind: 'unknown' };
  const events = JSON.parse(task.events) as readonly CanonicalEvent[];
  return { kind: 'evaluated', verdicts: events.map((event) => evaluator.evaluate(contract, event)) };
}

/** The contract of a task, kept as one object: the evaluator knows what it compiled by that. */
function contractOf({ key, contract }: Extract<ContractTask, { kind: 'evaluate' }>): Contract | undefined {
  const known = kept.get(key) ?? (contract === undefined ? undefined : (JSON.parse(contract) as Contract));
  if (known !== undefined) kept.set(key, known);
  return known;
}
