import { describe, expect, it } from 'vitest';
import { attribute, EVENT, identitiesOf, treeOf } from './people.ts';
import type { Stage } from './stage.ts';

export function together(stage: Stage): void {
  describe('two stores of one installation', () => {
    it('read each other’s writes as soon as they are acknowledged', async () => {
      const here = stage.people();
      const there = here.through(stage.other());
      for (let n = 0; n < 30; n++) {
        const [writer, reader] = n % 2 === 0 ? [here, there] : [there, here];
        const made = await writer.write(['email:a@x', `cookie:c${n}`], { attributes: [attribute('n', n)] });
        expect(await reader.find(`cookie:c${n}`)).toEqual(made);
        expect(await reader.findUcid(made.ucid)).toEqual(made);
      }
      await there.delete(['email:a@x']);
      expect(await here.find('cookie:c7')).toBeUndefined();
    });

    it('create one profile for a person whom both write for the first time', async () => {
      const here = stage.people();
      const there = here.through(stage.other());
      const made = await Promise.all(
        Array.from({ length: 40 }, (_, n) =>
          (n % 2 === 0 ? here : there).write(['email:a@x'], { attributes: [attribute(`n-${n}`, n)], ts: n }),
        ),
      );
      expect(new Set(made.map(({ ucid }) => ucid)).size).toBe(1);
      expect(treeOf(await here.find('email:a@x'))).toEqual({
        d: Object.fromEntries(made.map((_, n) => [`n-${n}`, n])),
      });
    });

    it('create one profile from a ring of identities, in any order of writes', async () => {
      const here = stage.people();
      const there = here.through(stage.other());
      const size = 12;
      const ucids = (
        await Promise.all(Array.from({ length: size }, (_, n) => here.write([`cookie:c${n}`], { ts: 1 })))
      ).map(({ ucid }) => ucid);
      await Promise.all(
        ucids.map((_, n) =>
          (n % 2 === 0 ? here : there).write(
            [`cookie:c${n}`, `cookie:c${(n + 1) % size}`, `cookie:c${(n + 5) % size}`],
            {
              attributes: [attribute('n', n)],
              ts: n,
            },
          ),
        ),
      );
      const one = await here.find('cookie:c0');
      expect(one?.ucid).toBe([...ucids].sort()[0]);
      expect(one?.linked).toEqual([...ucids].sort().slice(1));
      expect(identitiesOf(one)).toHaveLength(size);
      expect(treeOf(one)).toEqual({ d: { n: size - 1 } });
      for (const ucid of ucids) expect(await there.findUcid(ucid)).toEqual(one);
    });

    it('leave a record that is deleted while it is written either complete or removed', async () => {
      for (let round = 0; round < 15; round++) {
        const here = stage.people();
        const there = here.through(stage.other());
        await here.write(['cookie:c1', 'cookie:c2'], { attributes: [attribute('old', 1)] });
        const both = { attributes: [attribute('a', round), attribute('b', round)] };
        const [written] = await Promise.all([
          here.write(['cookie:c1', 'cookie:c2', 'cookie:c3'], both),
          there.delete(['cookie:c2']),
        ]);
        const found = await here.search(['cookie:c1', 'cookie:c2', 'cookie:c3']);
        expect(found.length).toBeLessThanOrEqual(1);
        const [left] = found;
        if (left === undefined) {
          expect(await here.findUcid(written.ucid)).toBeUndefined();
        } else {
          expect(left).toEqual(written);
          expect(identitiesOf(left)).toEqual(['cookie:c1', 'cookie:c2', 'cookie:c3']);
          expect(treeOf(left)).toEqual({ d: { a: round, b: round } });
        }
      }
    });

    it('never merge two users of one device, in any order of their events', async () => {
      const here = stage.people();
      const there = here.through(stage.other());
      await Promise.all(
        Array.from({ length: 40 }, (_, n) =>
          (n % 2 === 0 ? here : there).write(
            [`user_id:u${n % 4}`, `anonymous_id:d${n % 3}`, `email:${n % 5}@x`],
            EVENT,
          ),
        ),
      );
      const profiles = await here.search([0, 1, 2, 3].map((n) => `user_id:u${n}`));
      expect(profiles).toHaveLength(4);
      for (const profile of profiles)
        expect(identitiesOf(profile).filter((text) => text.startsWith('user_id:'))).toHaveLength(1);
      expect(new Set(profiles.flatMap(identitiesOf)).size).toBe(profiles.flatMap(identitiesOf).length);
    });
  });
}
