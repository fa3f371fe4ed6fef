import { expect, it } from 'vitest';
import type { Contract } from '../../catalog/entities.ts';
import type { CanonicalEvent, EventType, JsonObject } from '../../event/event.ts';
import { planContract } from './plan.fixture.ts';
import { PlanComparison } from './plan-comparison.ts';

const contract = (id: string, fields: Partial<Contract> = {}) =>
  ({ ...planContract(fields), id, event_name: id, ...fields }) as unknown as Contract;
const event = (name: string, properties: JsonObject) =>
  ({ type: 'track', event: name, properties }) as unknown as CanonicalEvent;
const finder = (contracts: readonly Contract[]) => (type: EventType, name: string) =>
  contracts.find((one) => one.event_type === type && one.event_name === name) ??
  contracts.find((one) => one.event_type === type && one.event_name === '');

it('finds fields that never arrived, undeclared fields, and how often each was there', () => {
  const contracts = [
    contract('Paid', {
      schema_definition: {
        properties: {
          id: { type: 'string', required: true },
          coupon: { type: 'string' },
          lines: { items: { properties: { sku: { type: 'string' }, size: {} } } },
          free: { type: 'object' },
        },
      },
    }),
    contract('Never'),
  ];
  const comparison = new PlanComparison(contracts, finder(contracts));
  comparison.addEvent(
    event('Paid', { id: 'a', lines: [{ sku: 's' }, { sku: 't', colour: 1 }], free: { x: 1 }, extra: null }),
  );
  comparison.addEvent(event('Paid', { id: 5, lines: [] }));
  comparison.addEvent(event('Typo', { a: 1 }));
  comparison.addCount('track', 'Paid', 40);
  comparison.addCount('page', 'Home', 2);
  comparison.addUndeclared(contracts[0] as Contract, '/lines/3/secret');
  expect(comparison.isCut).toBe(false);
  expect(comparison.seen.map(({ id }) => id)).toEqual(['Paid']);
  const events = [...comparison.result()];
  expect(
    events.map(({ event_name, state, accepted, sampled }) => [event_name, state, accepted, sampled]),
  ).toEqual([
    ['Typo', 'undeclared', 0, 1],
    ['Home', 'undeclared', 2, 0],
    ['Never', 'never_seen', 0, 0],
    ['Paid', 'seen', 40, 2],
  ]);
  expect(events[3]?.fields.map(({ path, state, seen, of }) => `${path} ${state} ${seen}/${of}`)).toEqual([
    '/lines/*/colour undeclared 1/2',
    '/extra undeclared 1/2',
    '/lines/*/secret undeclared 0/0',
    '/coupon never_seen 0/2',
    '/lines/*/size never_seen 0/2',
    '/free seen 1/2',
    '/id seen 2/2',
    '/lines seen 2/2',
    '/lines/*/sku seen 2/2',
  ]);
  expect(events[3]?.fields.find(({ path }) => path === '/id')).toMatchObject({
    required: true,
    types: { string: 1, integer: 1 },
  });
});

it('counts names without a contract of their own for the contract without a name', () => {
  const contracts = [contract('Paid'), contract('any', { event_name: '' })];
  const comparison = new PlanComparison(contracts, finder(contracts));
  comparison.addCount('track', 'Other', 3);
  comparison.addCount('track', 'Third', 4);
  expect([...comparison.result()].map(({ event_name, accepted }) => [event_name, accepted])).toEqual([
    ['Paid', 0],
    ['', 7],
  ]);
});

it('reports a bounded number of names without a contract', () => {
  const comparison = new PlanComparison([], () => undefined);
  for (let at = 0; at < 1_200; at++) comparison.addCount('track', `Name ${at}`, 1);
  expect(comparison.isCut).toBe(true);
  expect([...comparison.result()]).toHaveLength(1_000);
});
