import type { JsonObject } from '@tributary/core';
import { expect, it } from 'vitest';
import { mappingFaults } from './settings.ts';

const nested = (levels: number): JsonObject => (levels === 1 ? {} : { a: nested(levels - 1) });
const faultsOf = (mapping: JsonObject) =>
  mappingFaults({
    actions: [
      { action: 'a', subscribe: 's' },
      { action: 'a', subscribe: 's', mapping },
    ],
  });

it('a mapping could be of any depth and size', () => {
  expect(faultsOf(nested(12))).toEqual([]);
  expect(faultsOf(nested(13))).toMatchObject([{ path: '/actions/1/mapping' }]);
  expect(faultsOf({ text: 'a'.repeat(16_000) })).toEqual([]);
  expect(faultsOf({ text: 'é'.repeat(8_200) })).toMatchObject([{ path: '/actions/1/mapping' }]);
  expect(mappingFaults({})).toEqual([]);
});
