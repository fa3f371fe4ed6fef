import { expect, it } from 'vitest';
import { Patience } from './patience.ts';

it('gives up those that wait too long, once, and none that were done before', async () => {
  const patience = new Patience(() => performance.now());
  const gaveUp: string[] = [];
  const waiting = (name: string, then = () => {}) => ({
    outOfPatience() {
      gaveUp.push(name);
      then();
    },
  });
  const done = patience.wait(20, waiting('done'));
  await new Promise<void>((resolve) => {
    patience.wait(200, waiting('long', resolve));
    patience.wait(20, waiting('short'));
    done.end();
  });
  expect(gaveUp).toEqual(['short', 'long']);
});

it('begins again with who waits anew, and holds nobody up behind one that was done', async () => {
  const time = { now: 0 };
  const patience = new Patience(() => time.now);
  const gaveUp: string[] = [];
  const first = patience.wait(100, { outOfPatience: () => gaveUp.push('first') });
  time.now = 50;
  patience.wait(100, {
    outOfPatience() {
      gaveUp.push('second');
      patience.wait(100, { outOfPatience: () => gaveUp.push('again') });
    },
  });
  const look = async (now: number) => {
    time.now = now;
    await new Promise((resolve) => setTimeout(resolve, 60));
    return gaveUp;
  };
  first.end();
  expect(await look(149)).toEqual([]);
  expect(await look(150)).toEqual(['second']);
  expect(await look(249)).toEqual(['second']);
  expect(await look(250)).toEqual(['second', 'again']);
});
