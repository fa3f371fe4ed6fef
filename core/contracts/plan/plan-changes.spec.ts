import { describe, expect, it } from 'vitest';
import type { Contract } from '../../catalog/entities.ts';
import type { JsonObject } from '../../event/event.ts';
import { planContract, writePlan } from './plan.fixture.ts';
import { type PlanImport, PlanMatcher } from './plan-changes.ts';
import { readPlan } from './plan-forms.ts';
import { type PlanContract, trackingPlanOf } from './tracking-plan.ts';

const stored = (fields: Partial<PlanContract> = {}) =>
  ({
    ...planContract(fields),
    id: fields.event_name ?? 'Order Placed',
    status: 'active',
  }) as unknown as Contract;

function changesOf(
  document: JsonObject | string,
  contracts: readonly Contract[],
  options: Partial<PlanImport> = {},
) {
  const matcher = new PlanMatcher(contracts, { missing: 'keep', ...options });
  const changes = readPlan(document)
    .contracts.flatMap((contract) => matcher.match(contract) ?? [])
    .concat(matcher.missing());
  const { faults } = matcher;
  return {
    faults,
    changes: changes.map((change) => [
      change.action,
      'fields' in change ? change.fields.event_name : change.stored.event_name,
      ...(change.action === 'update' ? change.changed : []),
    ]),
  };
}

const short = { properties: { id: { type: 'string', required: true } } };

describe('the import of a plan', () => {
  it('of an export changes nothing, in whichever form', () => {
    const contracts = [
      stored({ schema_definition: { ...short, 'x-labels': { a: 'b' } } }),
      stored({ event_name: '', event_type: 'group' }),
    ];
    for (const form of ['tributary', 'segment', 'segment-csv', 'rudderstack', 'rudderstack-csv'] as const)
      expect(changesOf(writePlan(form, trackingPlanOf('x', 1, contracts)), contracts), form).toEqual({
        faults: [],
        changes: [
          ['leave', 'Order Placed'],
          ['leave', ''],
        ],
      });
  });

  it('creates, replaces, and last archives missing contracts only where the option says so', () => {
    const contracts = [stored({ event_name: 'Gone' }), stored()];
    const document = {
      contracts: [
        { ...planContract({ description: 'New.', undeclared_fields: 'omit' }) },
        { event_type: 'page', event_name: 'Home', schema_definition: {} },
      ],
    };
    const expected = [
      ['update', 'Order Placed', 'description', 'undeclared_fields'],
      ['create', 'Home'],
    ];
    expect(changesOf(document, contracts).changes).toEqual(expected);
    expect(changesOf(document, contracts, { missing: 'archive' }).changes).toEqual([
      ...expected,
      ['archive', 'Gone'],
    ]);
  });

  it('keeps what another form of plan does not hold, and has the defaults for what our own leaves out', () => {
    const contracts = [stored({ schema_definition: short })];
    expect(changesOf({ rules: [{ key: 'Order Placed', jsonSchema: {} }] }, contracts).changes).toEqual([
      ['update', 'Order Placed', 'description', 'schema_definition'],
    ]);
    const own = {
      contracts: [{ event_type: 'track', event_name: 'Order Placed', schema_definition: short }],
    };
    expect(changesOf(own, contracts).changes).toEqual([
      ['update', 'Order Placed', 'description', 'enforcement_mode', 'undeclared_fields'],
    ]);
  });

  it('concerns the contracts of one label alone', () => {
    const labels = { schema_definition: { 'x-labels': { team: 'a' } } };
    const contracts = [stored({ event_name: 'Mine', ...labels }), stored({ event_name: 'Theirs' })];
    expect(changesOf({ contracts: [] }, contracts, { missing: 'archive', label: 'team:a' }).changes).toEqual([
      ['archive', 'Mine'],
    ]);
    expect(changesOf({ contracts: [{ ...planContract() }] }, contracts, { label: 'team' }).faults).toEqual([
      { path: '/contracts/0', message: 'has not the label "team"' },
    ]);
  });

  it('has each event once', () => {
    const twice = { contracts: [{ ...planContract() }, { ...planContract({ name: 'Other' }) }] };
    expect(changesOf(twice, []).faults).toEqual([
      { path: '/contracts/1', message: 'is for the same event as /contracts/0' },
    ]);
  });
});
