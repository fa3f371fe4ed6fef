import {
  type CanonicalEvent,
  type Contract,
  createContractEvaluator,
  type JsonObject,
} from '@tributary/core';
import { HOSTILE_CONTRACTS, type HostileContract } from './hostile-contracts.ts';
import type { BenchRow } from './table.ts';

/** The upper bound on the core time that the worst contract may use for one event, ms. */
const BAR_MS = 3;
const AT = '2026-01-02T03:04:05.678Z';

/** The maximum time of the hostile contracts for one event, once their code is warm. */
export function hostileContractRow({ ms }: { ms: number }): BenchRow {
  const measured = HOSTILE_CONTRACTS.map((one) => ({ name: one.name, ms: evaluationMs(one, ms) }));
  const [worst, ...others] = measured.toSorted((a, b) => b.ms - a.ms);
  return {
    path: `evaluating an event, the worst of ${measured.length} hostile contracts`,
    figure: [worst, ...others.slice(0, 3)].map((one) => `${one?.ms.toFixed(2)} ms (${one?.name})`).join(', '),
    baseline: '-',
    ratio: null,
    bar: `<= ${BAR_MS} ms`,
    holds: (worst?.ms ?? Number.POSITIVE_INFINITY) <= BAR_MS,
  };
}

function evaluationMs(hostile: HostileContract, forMs: number): number {
  const { evaluate } = createContractEvaluator();
  const contract = hostileContract(hostile);
  const event = hostileEvent(hostile.subject);
  const taken: number[] = [];
  const until = performance.now() + forMs;
  while (taken.length < 20 || performance.now() < until) {
    const startedAt = performance.now();
    evaluate(contract, event);
    taken.push(performance.now() - startedAt);
  }
  return taken.sort((a, b) => a - b)[Math.floor(taken.length / 4)] ?? 0;
}

/** A contract with the slowest constructs. */
export function hostileContract({ name, definition }: HostileContract): Contract {
  return {
    id: name,
    version: 1,
    workspace_id: 'w',
    name,
    event_type: 'track',
    event_name: 'e',
    description: null,
    schema_definition: definition,
    enforcement_mode: 'warn',
    undeclared_fields: 'omit',
    status: 'active',
    created_by: 'bench',
    created_at: AT,
    updated_at: AT,
  };
}

export function hostileEvent(properties: JsonObject): CanonicalEvent {
  return {
    message_id: 'm',
    type: 'track',
    event: 'e',
    user_id: 'u',
    properties,
    timestamp: AT,
    received_at: AT,
    environment: 'production',
    workspace_id: 'w',
  };
}
