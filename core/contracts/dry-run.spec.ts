import { describe, expect, it } from 'vitest';
import type { Contract } from '../catalog/entities.ts';
import type { JsonObject } from '../event/event.ts';
import { contractWith, trackEvent } from './contracts.fixture.ts';
import { ContractDryRun, MAX_DRY_RUN_EXAMPLES, MAX_DRY_RUN_VIOLATIONS } from './dry-run.ts';
import { createContractEvaluator } from './evaluator.ts';

const CONTRACT = contractWith({
  version: 2,
  event_name: 'Paid',
  schema_definition: {
    properties: {
      amount: { type: 'number', required: true },
      lines: { items: { properties: { sku: { type: 'string' } } } },
    },
  },
  undeclared_fields: 'warn',
});

const eventOf = (message_id: string, properties: JsonObject) =>
  trackEvent(properties, { message_id, event: 'Paid' });

function resultOf(events: readonly JsonObject[], contract: Partial<Contract> = {}) {
  const run = new ContractDryRun();
  const tried = { ...CONTRACT, ...contract };
  const { evaluate } = createContractEvaluator();
  for (const [n, properties] of events.entries()) {
    const event = eventOf(`m${n}`, properties);
    run.add(event, evaluate(tried, event));
  }
  return run.result;
}

describe('a dry run', () => {
  it('counts what would have become of the events', () => {
    const events = [{ amount: 1 }, { amount: 1, more: 1 }, {}, { amount: 'x' }];
    expect(resultOf(events).outcomes).toEqual({ accepted: 1, warned: 1, omitted: 0, rejected: 2 });
    const lenient = { enforcement_mode: 'warn', undeclared_fields: 'omit' } as const;
    expect(resultOf(events, lenient).outcomes).toEqual({ accepted: 1, warned: 2, omitted: 1, rejected: 0 });
  });

  it('counts each kind of violation at each place once an event, whichever item of a list has it', () => {
    const { violations, isCut } = resultOf([
      { amount: 1, lines: [{ sku: 1 }, { sku: 2 }] },
      { amount: 1, lines: [{}, {}, { sku: 3 }] },
      {},
    ]);
    expect(violations).toEqual([
      { kind: 'type', path: '/lines/*/sku', message: 'must be a string', action: 'blocked', events: 2 },
      { kind: 'required', path: '/amount', message: 'is required', action: 'blocked', events: 1 },
    ]);
    expect(isCut).toBe(false);
  });

  it('shows some of the events that would not have passed untouched', () => {
    const { examples } = resultOf(Array.from({ length: 30 }, (_, n) => (n % 2 === 0 ? { amount: 1 } : {})));
    expect(examples).toHaveLength(MAX_DRY_RUN_EXAMPLES);
    expect(examples[0]?.event.message_id).toBe('m1');
    expect(examples[0]?.verdict).toMatchObject({ outcome: 'rejected', violations: [{ path: '/amount' }] });
  });

  it('is of bounded size, and states so, whatever fields events invent', () => {
    const events = Array.from({ length: 500 }, (_, n) => ({ amount: 1, [`field ${n}`]: 1 }));
    const { violations, isCut } = resultOf(events);
    expect(violations).toHaveLength(MAX_DRY_RUN_VIOLATIONS);
    expect(isCut).toBe(true);
  });
});
