import { expect, it } from 'vitest';
import { SETTINGS } from './settings.ts';
import { describeSettings } from './settings-reference.fixture.ts';

it('docs/reference/settings.md matches the code, with every setting once', async () => {
  const text = describeSettings();
  const names = [...text.matchAll(/^- `([A-Z_]+)`/gm)].map(([, name]) => name);
  expect(names.toSorted()).toEqual(
    Object.values(SETTINGS)
      .map(({ name }) => name)
      .toSorted(),
  );
  await expect(text).toMatchFileSnapshot('../../../docs/reference/settings.md');
});
