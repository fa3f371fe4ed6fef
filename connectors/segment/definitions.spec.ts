import { expect, test } from 'vitest';
import { defineChosen } from './definitions.fixture.ts';
import definitions from './definitions.json' with { type: 'json' };

test('definitions.json is what the pack says', () => {
  expect(definitions).toEqual(JSON.parse(JSON.stringify(defineChosen())));
});
