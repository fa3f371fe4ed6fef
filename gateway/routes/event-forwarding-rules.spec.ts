import type { CatalogView } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { ApiError } from '../errors/api-error.ts';
import { checkReferences, ruleFields, selectionFaults } from './event-forwarding-rules.ts';

const minimal = { name: 'All', destination_id: 'DE' };

describe('checkReferences', () => {
  const state = (status: string) =>
    ({ entity: (kind: string) => (kind === 'destination' ? {} : { status }) }) as unknown as CatalogView;

  function pathsOf(body: Parameters<typeof ruleFields>[0], view: CatalogView) {
    try {
      checkReferences(ruleFields(body), 'w', view);
    } catch (error) {
      if (error instanceof ApiError) return error.details?.map(({ path }) => path);
      throw error;
    }
    return [];
  }

  it('lets an enabled rule name an active transformation only', () => {
    const named = { ...minimal, transformation_id: 't' };
    expect(pathsOf(named, state('active'))).toEqual([]);
    expect(pathsOf(named, state('draft'))).toEqual(['/transformation_id']);
    expect(pathsOf(named, state('error'))).toEqual(['/transformation_id']);
    expect(pathsOf({ ...named, enabled: false }, state('draft'))).toEqual([]);
  });

  it('a rule whose filter and names an earlier release took could not be disabled', () => {
    const old = { ...minimal, filter: 'has(event.userId)', event_names: ['Order*'], enabled: false };
    const faultsOf = (stored?: Parameters<typeof selectionFaults>[1]) =>
      selectionFaults(ruleFields(old), stored).map(({ path }) => path);
    expect(faultsOf()).toEqual(['/event_names/0', '/filter']);
    expect(faultsOf({ filter: 'has(event.userId)', event_names: ['Order*'] })).toEqual([]);
    expect(faultsOf({ filter: 'event.user_id == ""', event_names: [] })).toEqual([
      '/event_names/0',
      '/filter',
    ]);
  });
});
