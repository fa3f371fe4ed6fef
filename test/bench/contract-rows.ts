import {
  applyFact,
  type CanonicalEvent,
  CatalogState,
  createContractEvaluator,
  eventName,
  type Fact,
  newId,
} from '@tributary/core';
import { benchContract, benchEvent, benchNames } from './event.ts';
import { type BenchRow, judged, median, perSecond } from './table.ts';

const FEW = 4;
const MANY = 1_000;
/**
 * Below 1 because the tables of a thousand contracts and their patterns do not fit the processor's caches.
 * The bar rules out costs that grow with the number of contracts.
 */
const BAR = 0.6;
const EVENTS = 20_000;
const WARM_UP = 50;
const WORKSPACE = newId();

/**
 * The validate stage's work for one event besides log reads and writes: parse it, find its contract, evaluate
 * it.
 */
export function contractRow({ rounds }: { rounds: number }): BenchRow {
  const [few, many] = [throughput(FEW), throughput(MANY)];
  // Uses each of the many contracts often enough for the engine to compile its code finally.
  for (let pass = 0; pass < WARM_UP; pass++) [few, many].map((run) => run());
  const measured = Array.from({ length: 3 * rounds }, () => [few(), many()] as const);
  const ratio = median(measured.map(([base, figure]) => figure / base));
  return {
    path: `evaluating an event, ${MANY.toLocaleString('en')} contracts in the workspace`,
    figure: perSecond(median(measured.map(([, figure]) => figure))),
    baseline: `${perSecond(median(measured.map(([base]) => base)))} with ${FEW}`,
    ...judged(ratio, '>=', BAR),
  };
}

/** Events a second, each time the function is called, of a workspace with so many contracts. */
function throughput(contracts: number): () => number {
  const names = benchNames(contracts);
  const state = stateOf(names);
  const position = Number.MAX_SAFE_INTEGER;
  const evaluator = createContractEvaluator();
  const received = Array.from({ length: EVENTS }, (_, n) => JSON.stringify(eventOf(n, names)));
  return () => {
    const startedAt = performance.now();
    for (const text of received) {
      const event = JSON.parse(text) as CanonicalEvent;
      const contract = state.contractAt(event.workspace_id, event.type, eventName(event), position);
      if (contract === undefined) throw new Error(`no contract is for ${eventName(event)}`);
      const { outcome } = evaluator.evaluate(contract, event);
      if (outcome !== 'accepted') throw new Error(`an event came out as ${outcome}`);
    }
    return EVENTS / ((performance.now() - startedAt) / 1_000);
  };
}

function eventOf(n: number, names: readonly string[]): CanonicalEvent {
  const at = '2026-01-02T03:04:05.678Z';
  const event = {
    message_id: newId(),
    type: 'track',
    ...benchEvent(n, names[n % names.length]),
    received_at: at,
    environment: 'production',
    workspace_id: WORKSPACE,
  };
  return event as unknown as CanonicalEvent;
}

function stateOf(names: readonly string[]): CatalogState {
  const state = new CatalogState();
  const at = '2026-01-01T00:00:00.000Z';
  const organization = { id: newId(), name: 'o', regions: ['eu'], notification_email: null };
  const facts = [
    {
      type: 'workspace.created',
      entity: WORKSPACE,
      data: {
        workspace: {
          id: WORKSPACE,
          name: 'w',
          organization_id: organization.id,
          region: 'eu',
          status: 'active',
        },
        organization,
      },
    },
    ...names.map((name, n) => {
      const id = newId();
      const kept = { id, workspace_id: WORKSPACE, description: null, status: 'active', created_by: 'bench' };
      return { type: 'contract.created', entity: id, data: { ...benchContract(name, n), ...kept } };
    }),
  ];
  facts.forEach((fact, position) => {
    const whole = { v: 1, by: 'bench', from: { address: '', request_id: '' }, at, ...fact } as Fact;
    const verdict = applyFact(state, whole, position);
    if (!verdict.applied) throw new Error(`${fact.type} was refused: ${verdict.conflict}`);
  });
  return state;
}
