import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Rule } from '../catalog/entities.ts';
import { ENVIRONMENTS, EVENT_TYPES } from '../event/event.ts';
import { ruleMatches } from './match.ts';

const names = ['', 'order', 'view'];
const subject = fc.record({
  type: fc.constantFrom(...EVENT_TYPES),
  name: fc.constantFrom(...names),
  environment: fc.constantFrom(...ENVIRONMENTS),
});
const rule = fc
  .record({
    event_types: fc.subarray([...EVENT_TYPES]),
    event_names: fc.subarray(names),
    environments: fc.subarray([...ENVIRONMENTS]),
    enabled: fc.boolean(),
  })
  .map(
    (fields): Rule => ({
      ...fields,
      id: 'r1',
      version: 1,
      created_at: '',
      updated_at: '',
      workspace_id: 'w1',
      name: 'r',
      destination_id: 'd1',
      transformation_id: null,
      created_by: 'a1',
    }),
  );

describe('ruleMatches', () => {
  it('takes nothing while disabled', () => {
    fc.assert(
      fc.property(rule, subject, (each, event) => {
        expect(ruleMatches({ ...each, enabled: false }, event)).toBe(false);
      }),
    );
  });

  it('takes the environments it lists, and none when it lists none', () => {
    fc.assert(
      fc.property(rule, subject, (each, event) => {
        const open = { ...each, enabled: true, event_types: [], event_names: [] };
        expect(ruleMatches(open, event)).toBe(each.environments.includes(event.environment));
      }),
    );
  });

  it('narrows by every list that is not empty', () => {
    fc.assert(
      fc.property(rule, subject, (each, event) => {
        const open = { ...each, enabled: true, environments: [event.environment] };
        const byType = ruleMatches({ ...open, event_names: [] }, event);
        const byName = ruleMatches({ ...open, event_types: [] }, event);
        expect(byType).toBe(each.event_types.length === 0 || each.event_types.includes(event.type));
        expect(byName).toBe(each.event_names.length === 0 || each.event_names.includes(event.name));
        expect(ruleMatches(open, event)).toBe(byType && byName);
      }),
    );
  });
});
