import { Unavailable } from '@tributary/core';
import { expect, it, onTestFinished } from 'vitest';
import { watchEngines } from './engine-watch.ts';

it('knows what each engine said last, and one that is silent holds up none', async () => {
  let down = false;
  let asked = 0;
  const watch = watchEngines(
    {
      silent: () => new Promise(() => {}),
      moody: async () => {
        asked++;
        if (down) throw new Unavailable('gone');
      },
    },
    5,
  );
  onTestFinished(() => watch.close());
  const askedAgain = async () => {
    const before = asked;
    while (asked < before + 2) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  expect(watch.said()).toEqual({ silent: 'not asked yet', moody: 'not asked yet' });
  await askedAgain();
  expect(watch.said()).toEqual({ silent: 'not asked yet', moody: 'answers' });
  down = true;
  await askedAgain();
  expect(watch.said()).toEqual({ silent: 'not asked yet', moody: 'does not answer: gone' });
});
