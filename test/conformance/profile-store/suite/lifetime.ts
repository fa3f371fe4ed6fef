import { Unavailable } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { Published } from './harness.ts';
import { attribute, People, treeOf } from './people.ts';
import type { Stage } from './stage.ts';

const ROUNDS = process.env.TRIBUTARY_TEST_LONG === undefined ? 3 : 10;

export function lifetime(stage: Stage): void {
  describe('a store', () => {
    it('that is opened for the first time by several at once serves each of them at once', async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const installation = await stage.installation(60_000);
        const open = () => installation.open({ publish: new Published().publish });
        const stores = await Promise.all([open(), open(), open()]);
        const everybody = stores.map((store) => new People(store));
        const made = await Promise.all(everybody.map((people, n) => people.write([`cookie:c${n}`])));
        for (const [n, people] of everybody.entries())
          expect(await people.find(`cookie:c${n}`)).toEqual(made[n]);
      }
    });

    it('that is closed has carried out the calls under way, and accepts nothing more', async () => {
      const installation = await stage.installation(60_000);
      const { publish } = new Published();
      const store = await installation.open({ publish });
      const people = new People(store);
      const underWay = Array.from({ length: 50 }, (_, n) =>
        people.write([`cookie:c${n}`], { attributes: [attribute('n', n)] }),
      );
      await store.close();
      const made = await Promise.all(underWay);
      await expect(people.write(['cookie:late'])).rejects.toThrow(Unavailable);
      await expect(people.find('cookie:1')).rejects.toThrow(Unavailable);
      await expect(people.delete(['cookie:1'])).rejects.toThrow(Unavailable);
      await store.close();
      const again = people.through(await installation.open({ publish }));
      for (const [n, { ucid }] of made.entries()) {
        const found = await again.find(`cookie:c${n}`);
        expect([found?.ucid, treeOf(found)]).toEqual([ucid, { d: { n } }]);
      }
      expect(await again.find('cookie:late')).toBeUndefined();
    });
  });
}
