import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { describeConnectors } from './reference.fixture.ts';

test('docs/reference/connectors.md matches the descriptions', async () => {
  const committed = await readFile(new URL('../docs/reference/connectors.md', import.meta.url), 'utf8');
  expect(committed).toBe(describeConnectors());
});
