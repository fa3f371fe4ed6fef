import { expect, it } from 'vitest';
import { ruleFields, selectionFaults } from './event-forwarding-rules.ts';

const minimal = { name: 'All', destination_id: 'DE' };

it('a rule whose filter and names an earlier release took could not be disabled', () => {
  const old = { ...minimal, filter: 'has(event.userId)', event_names: ['Order*'], enabled: false };
  const faultsOf = (stored?: Parameters<typeof selectionFaults>[1]) =>
    selectionFaults(ruleFields(old), stored).map(({ path }) => path);
  expect(faultsOf()).toEqual(['/event_names/0', '/filter']);
  expect(faultsOf({ filter: 'has(event.userId)', event_names: ['Order*'] })).toEqual([]);
  expect(faultsOf({ filter: 'event.user_id == ""', event_names: [] })).toEqual(['/event_names/0', '/filter']);
});
