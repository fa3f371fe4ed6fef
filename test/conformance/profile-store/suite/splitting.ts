import { newId, type Profile } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { attribute, EVENT, identitiesOf, type People, treeOf } from './people.ts';
import type { Stage } from './stage.ts';

export function splitting(stage: Stage): void {
  const split = async (people: People, ucid: string) => {
    const outcome = await people.split(ucid);
    if (outcome.kind === 'refused') throw new Error(outcome.reason);
    return outcome;
  };
  /** Two profiles that were merged by mistake: the older, the younger, and the merged one. */
  const merged = async (people: People) => {
    const first = await people.write(['user_id:ann', 'email:a@x'], {
      attributes: [attribute('city', 'Bonn', 5), attribute('pet', 'cat', 2)],
    });
    const second = await people.write(['user_id:bob', 'cookie:b'], {
      attributes: [attribute('city', 'Rome', 4), attribute('age', 41, 3)],
      consents: [{ name: 'ads', value: 'no', ts: 3 }],
    });
    const one = await people.write(['user_id:ann', 'user_id:bob'], {
      attributes: [attribute('late', 'who', 6)],
    });
    return { first, second, one };
  };

  describe('a split', () => {
    it('could not be: two people that were merged by mistake stayed one for good', async () => {
      const people = stage.people();
      const { first, second, one } = await merged(people);
      const outcome = await split(people, second.ucid);
      const [ann, bob] = [await people.find('user_id:ann'), await people.find('user_id:bob')];
      expect(outcome).toEqual({
        kind: 'split',
        profile: bob,
        survivor: ann,
        kept: { attributes: [['d', 'late']], preferences: [], consents: [], identityTypes: [] },
        lost: { attributes: [], preferences: [], consents: [] },
      });
      expect([ann?.ucid, identitiesOf(ann), treeOf(ann)]).toEqual([
        first.ucid,
        ['email:a@x', 'user_id:ann'],
        { d: { city: 'Bonn', pet: 'cat', late: 'who' } },
      ]);
      expect([bob?.ucid, identitiesOf(bob), treeOf(bob)]).toEqual([
        second.ucid,
        ['cookie:b', 'user_id:bob'],
        { d: { age: 41, city: 'Rome' } },
      ]);
      expect(bob).toMatchObject({ consents: [{ name: 'ads', value: 'no', ts: 3 }], linked: [] });
      expect(bob?.version).toBeGreaterThan(one.version);
      // At once in every process, by every identity.
      const elsewhere = people.through(stage.other());
      for (const known of ['email:a@x', 'cookie:b'])
        expect(await elsewhere.find(known)).toEqual(known === 'cookie:b' ? bob : ann);
      expect(await elsewhere.findUcid(second.ucid)).toEqual(bob);
      expect(await elsewhere.findUcid(first.ucid)).toEqual(ann);
      expect(await elsewhere.search(['user_id:ann', 'user_id:bob'])).toEqual([ann, bob]);
    });

    it('lost the opt-out of one, where the other had opted in later: now each says what its own sources said', async () => {
      const people = stage.people();
      const said = (value: string, ts: number) => ({
        consents: [{ name: 'ads', value, ts }],
        preferences: [{ name: 'sms', value, ts }],
        attributes: [attribute('n', value, ts)],
      });
      const saidBy = (profile: Profile | undefined) => [
        profile?.consents.map(({ value }) => value),
        profile?.preferences.map(({ value }) => value),
        treeOf(profile).d,
      ];
      const none = { attributes: [], preferences: [], consents: [] };
      for (const [n, of] of (['split', 'unlink', 'survivor'] as const).entries()) {
        const [ann, bob] = [`user_id:ann${n}`, `user_id:bob${n}`];
        const first = await people.write([ann], said('no', 3));
        const second = await people.write([bob, `cookie:b${n}`], said('yes', 5));
        await people.write([ann, bob]);
        await people.write([`cookie:b${n}`], { attributes: [attribute('late', 'bob', 7)] });
        await people.write([ann], { attributes: [attribute('late', 'ann', 6)] });
        if (of === 'split')
          expect(await people.split(second.ucid)).toMatchObject({ kind: 'split', lost: none });
        else {
          const names = of === 'unlink' ? [bob, `cookie:b${n}`] : [ann];
          const outcome = await people.unlink(names);
          const [left, out] = of === 'unlink' ? [first, second] : [second, first];
          expect(outcome).toMatchObject({
            kind: 'unlinked',
            profile: { ucid: left.ucid },
            split: { ucid: out.ucid, lost: none },
          });
        }
        const [her, his] = [await people.find(ann), await people.find(bob)];
        expect([her?.ucid, his?.ucid]).toEqual([first.ucid, second.ucid]);
        expect(saidBy(her)).toEqual([['no'], ['no'], { n: 'no', late: 'ann' }]);
        expect(saidBy(his)).toEqual([['yes'], ['yes'], { n: 'yes', late: 'bob' }]);
        expect(await people.find(`cookie:b${n}`)).toEqual(his);
        await people.upsert([ann, `cookie:b${n}`], EVENT);
        expect((await people.find(`cookie:b${n}`))?.ucid).toBe(second.ucid);
      }
    });

    it('gives a device back what events of it alone said, where it is unlinked from its user', async () => {
      const people = stage.people();
      await people.write(['anonymous_id:kiosk'], {
        ...EVENT,
        ts: 3,
        attributes: [attribute('n', 'kiosk', 3)],
      });
      const user = { ...EVENT, ts: 5, attributes: [attribute('n', 'user', 5), attribute('own', 1, 5)] };
      await people.write(['user_id:u', 'anonymous_id:kiosk'], user);
      await people.unlink(['anonymous_id:kiosk']);
      expect(treeOf(await people.find('anonymous_id:kiosk'))).toEqual({ d: { n: 'kiosk' } });
      expect(treeOf(await people.find('user_id:u'))).toEqual({ d: { n: 'user', own: 1 } });
      await people.write(['user_id:u', 'anonymous_id:kiosk'], { ...user, ts: 9 });
      expect(identitiesOf(await people.find('user_id:u'))).toEqual(['user_id:u']);
    });

    it('leaves all other merged profiles, in any chain, with the survivor', async () => {
      const people = stage.people();
      const made: Profile[] = [];
      for (const name of ['a', 'b', 'c', 'd'])
        made.push(await people.write([`cookie:${name}`], { attributes: [attribute(name, name, 1)] }));
      const [a, b, c, d] = made.map(({ ucid }) => ucid);
      await people.write(['cookie:c', 'cookie:d']);
      await people.write(['cookie:b', 'cookie:c'], { attributes: [attribute('bc', 'of b', 2)] });
      await people.write(['cookie:a', 'cookie:b']);
      const { profile, survivor } = await split(people, b ?? '');
      expect([treeOf(profile), profile.linked]).toEqual([{ d: { b: 'b', bc: 'of b' } }, []]);
      expect([survivor.ucid, survivor.linked]).toEqual([a, [c, d]]);
      for (const [known, ucid] of [
        ['cookie:a', a],
        ['cookie:b', b],
        ['cookie:c', a],
        ['cookie:d', a],
      ] as const)
        expect((await people.find(known))?.ucid).toBe(ucid);
      for (const ucid of [a, c, d]) expect((await people.findUcid(ucid ?? ''))?.ucid).toBe(a);
      expect(treeOf((await split(people, c ?? '')).profile)).toEqual({ d: { c: 'c' } });
      expect((await people.findUcid(d ?? ''))?.ucid).toBe(a);
      expect(identitiesOf(await people.find('cookie:a'))).toEqual(['cookie:a', 'cookie:d']);
      expect(await people.delete(['cookie:d'])).toEqual({ deleted: [a], notFound: [] });
      expect((await people.search(['cookie:b', 'cookie:c', 'cookie:d'])).map(({ ucid }) => ucid)).toEqual([
        b,
        c,
      ]);
    });

    it('of a profile of its own, of an unknown one, of another scope or of a deleted one changes nothing', async () => {
      const people = stage.people();
      const { first, second, one } = await merged(people);
      expect(await people.split(first.ucid)).toEqual({ kind: 'refused', reason: 'not_merged' });
      for (const other of [people.in('us'), stage.people()])
        expect(await other.split(second.ucid)).toEqual({ kind: 'refused', reason: 'unknown_ucid' });
      expect(await people.split(newId())).toEqual({ kind: 'refused', reason: 'unknown_ucid' });
      expect(await people.find('user_id:bob')).toEqual(one);
      await people.delete(['user_id:ann']);
      expect(await people.split(second.ucid)).toEqual({ kind: 'refused', reason: 'unknown_ucid' });
    });

    it('keeps the deletion records of the identity, and deletes no other profile', async () => {
      const people = stage.people();
      const before = Date.now() - 1_000;
      await people.write(['email:d@x']);
      await people.delete(['email:d@x']);
      const first = await people.write(['user_id:ann']);
      const second = await people.write(['email:d@x', 'cookie:d']);
      await people.write(['user_id:ann', 'cookie:d']);
      await split(people, second.ucid);
      const late = { ...EVENT, happenedAt: before, receivedAt: Date.now() };
      expect(await people.upsert(['email:d@x'], late)).toEqual({ kind: 'refused', reason: 'nothing_left' });
      expect(await people.delete([], { ucids: [first.ucid] })).toEqual({
        deleted: [first.ucid],
        notFound: [],
      });
      expect((await people.find('cookie:d'))?.ucid).toBe(second.ucid);
      expect(await people.upsert(['cookie:d'], late)).toMatchObject({ kind: 'written' });
      expect(await people.delete(['cookie:d'])).toEqual({ deleted: [second.ucid], notFound: [] });
    });

    it('is published by a change of each, the restored one with a version above all that named it before', async () => {
      const people = stage.people();
      const { first, second } = await merged(people);
      const { profile, survivor } = await split(people, second.ucid);
      const told = ({ ucid, version }: Profile) =>
        expect
          .poll(() => stage.published.of(ucid).find((change) => change.version === version))
          .toMatchObject({ kind: 'written', linked: [] });
      await told(profile);
      await told(survivor);
      const named = stage.published.changes.filter(({ linked }) => linked.includes(second.ucid));
      for (const { version, ucid } of named) {
        expect(ucid).toBe(first.ucid);
        expect(version).toBeLessThan(profile.version);
      }
    });
  });
}
