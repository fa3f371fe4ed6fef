import { describe, expect, it } from 'vitest';
import { attribute, treeOf } from './people.ts';
import type { Stage } from './stage.ts';

export function scopes(stage: Stage): void {
  describe('organizations and regions', () => {
    it('have separate profiles, also with the same identities', async () => {
      const [here, other] = [stage.people(), stage.people()];
      const there = here.in('us');
      const made = [
        await here.write(['email:a@x'], { attributes: [attribute('n', 'here')] }),
        await there.write(['email:a@x'], { attributes: [attribute('n', 'there')] }),
        await other.write(['email:a@x'], { attributes: [attribute('n', 'other')] }),
      ];
      expect(new Set(made.map(({ ucid }) => ucid)).size).toBe(3);
      for (const [at, people] of [here, there, other].entries()) {
        expect(await people.find('email:a@x')).toEqual(made[at]);
        for (const { ucid } of made.filter((one) => one !== made[at]))
          expect(await people.findUcid(ucid)).toBeUndefined();
      }
    });

    it('refuse a write to a ucid of another scope, and merge no profiles across scopes', async () => {
      const here = stage.people();
      const there = here.in('us');
      const made = await here.write(['email:a@x']);
      expect(await there.upsert(['email:b@x'], { ucid: made.ucid })).toEqual({
        kind: 'refused',
        reason: 'unknown_ucid',
      });
      expect(await there.find('email:b@x')).toBeUndefined();
      const [first, second] = [await there.write(['email:a@x']), await there.write(['email:b@x'])];
      const one = await there.write(['email:a@x', 'email:b@x']);
      expect([one.ucid, one.linked]).toEqual([first.ucid, [second.ucid]]);
      expect(await here.find('email:a@x')).toEqual(made);
    });

    it('report at once whether they have profiles, until all are deleted, so that a region with profiles is not removed', async () => {
      const here = stage.people();
      const there = here.in('us');
      const holds = ({ scope, store }: typeof here) => store.holdsProfiles(scope);
      expect(await holds(here)).toBe(false);
      const made = [await here.write(['email:a@x']), await here.write(['email:b@x'])];
      expect([await holds(here), await holds(there), await holds(stage.people())]).toEqual([
        true,
        false,
        false,
      ]);
      expect(await here.store.holdsProfiles(undefined)).toBe(true);
      await here.write(['email:a@x', 'email:b@x']);
      await there.write(['email:a@x']);
      await here.delete([], { ucids: made.map(({ ucid }) => ucid) });
      await expect.poll(() => holds(here)).toBe(false);
      expect(await holds(there)).toBe(true);
    });

    it('are searched together when several regions are given', async () => {
      const here = stage.people();
      const there = here.in('us');
      const made = [await here.write(['email:a@x']), await there.write(['email:a@x'])];
      await here.in('ap').write(['email:a@x']);
      const search = { org: here.scope.org, regions: ['us', 'eu'], ucids: [] };
      expect(await here.store.search({ ...search, identities: [{ type: 'email', value: 'a@x' }] })).toEqual(
        made,
      );
      const ucids = made.map(({ ucid }) => ucid);
      expect(await here.store.search({ ...search, identities: [], ucids })).toEqual(made);
      expect(await here.store.search({ ...search, regions: [], identities: [], ucids })).toEqual([]);
    });

    it('are deleted only in the given regions', async () => {
      const here = stage.people();
      const [there, farther] = [here.in('us'), here.in('ap')];
      const [first, second, third] = [
        (await here.write(['email:a@x'])).ucid,
        (await there.write(['email:a@x'])).ucid,
        (await farther.write(['email:a@x'], { attributes: [attribute('n', 'ap')] })).ucid,
      ];
      expect(await here.delete([], { ucids: [third] })).toEqual({ deleted: [], notFound: [0] });
      const outcome = await here.delete(['email:a@x', 'email:b@x'], { regions: ['eu', 'us'] });
      expect([...outcome.deleted].sort()).toEqual([first, second]);
      expect(outcome.notFound).toEqual([1]);
      expect(await here.find('email:a@x')).toBeUndefined();
      expect(await there.findUcid(second)).toBeUndefined();
      expect(treeOf(await farther.find('email:a@x'))).toEqual({ d: { n: 'ap' } });
    });
  });
}
