import { Unavailable } from '@tributary/core';
import { expect, it } from 'vitest';
import { shareCatchUps } from './authenticate.ts';

function looking() {
  const looks: { found(): void; failed(): void }[] = [];
  const catchUp = shareCatchUps(
    {
      catchUp: () =>
        new Promise((resolve, reject) => {
          looks.push({ found: resolve, failed: () => reject(new Unavailable('down')) });
        }),
    },
    250,
  );
  return { looks, catchUp };
}

it('looks once for all who came during one look, and after they came', async () => {
  const { looks, catchUp } = looking();
  const first = catchUp();
  const others = Array.from({ length: 1_000 }, catchUp);
  expect(looks).toHaveLength(1);
  looks[0]?.found();
  await first;
  expect(looks).toHaveLength(2);
  const late = catchUp();
  expect(looks).toHaveLength(2);
  looks[1]?.found();
  await Promise.all(others);
  expect(looks).toHaveLength(3);
  looks[2]?.found();
  await late;
});

it('looks again for those who wait when a look failed', async () => {
  const { looks, catchUp } = looking();
  const first = catchUp();
  const second = catchUp();
  looks[0]?.failed();
  await expect(first).rejects.toThrow(Unavailable);
  expect(looks).toHaveLength(2);
  looks[1]?.found();
  await expect(second).resolves.toBeUndefined();
});
