import { expect, it } from 'vitest';
import { Patience } from './patience.ts';

it('gives up those that wait too long, once, and none that were done before', async () => {
  const patience = new Patience(() => performance.now());
  const gaveUp: string[] = [];
  const done = patience.wait(20, () => gaveUp.push('done'));
  await new Promise<void>((resolve) => {
    patience.wait(200, () => {
      gaveUp.push('long');
      resolve();
    });
    patience.wait(20, () => gaveUp.push('short'));
    done();
  });
  expect(gaveUp).toEqual(['short', 'long']);
});
