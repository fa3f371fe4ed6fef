import { expect, test } from 'vitest';
import { describeConnectors } from './reference.fixture.ts';

test('docs/reference/connectors.md matches the descriptions', async () => {
  await expect(describeConnectors()).toMatchFileSnapshot('../docs/reference/connectors.md');
});
