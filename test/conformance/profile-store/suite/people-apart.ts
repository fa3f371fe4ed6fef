import { DEFAULT_PROFILE_BOUNDS } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { attribute, EVENT, identitiesOf, identity, treeOf } from './people.ts';
import type { Stage } from './stage.ts';

export function peopleApart(stage: Stage): void {
  describe('an event', () => {
    it('of two users on one device merges no profiles: the device stays with the first', async () => {
      const people = stage.people();
      const ada = await people.write(['user_id:ada', 'anonymous_id:device'], {
        ...EVENT,
        attributes: [attribute('n', 'ada')],
      });
      const outcome = await people.upsert(['user_id:eve', 'anonymous_id:device', 'email:eve@x'], {
        ...EVENT,
        attributes: [attribute('n', 'eve')],
      });
      expect(outcome).toMatchObject({
        kind: 'written',
        leftOut: [{ identity: identity('anonymous_id:device'), why: 'another_person' }],
      });
      const eve = await people.find('user_id:eve');
      expect(eve?.ucid).not.toBe(ada.ucid);
      expect(identitiesOf(eve)).toEqual(['email:eve@x', 'user_id:eve']);
      expect(treeOf(eve)).toEqual({ d: { n: 'eve' } });
      expect(await people.find('anonymous_id:device')).toEqual(ada);
      await people.write(['user_id:ada', 'anonymous_id:device', 'email:eve@x'], EVENT);
      expect((await people.find('email:eve@x'))?.ucid).toBe(eve?.ucid);
      expect(identitiesOf(await people.find('user_id:ada'))).toEqual(['anonymous_id:device', 'user_id:ada']);
    });

    it('that would merge two profiles into one that is too large is written to the first, and merges nothing', async () => {
      const people = stage.people();
      const heavy = (name: string) =>
        [0, 1, 2].map((n) => attribute(`${name}-${n}`, 'x'.repeat(DEFAULT_PROFILE_BOUNDS.bytes / 5)));
      const user = await people.write(['user_id:ada'], { ...EVENT, attributes: heavy('user') });
      const device = await people.write(['anonymous_id:tablet'], { ...EVENT, attributes: heavy('device') });
      const outcome = await people.upsert(['user_id:ada', 'anonymous_id:tablet', 'email:ada@x'], {
        ...EVENT,
        attributes: [attribute('plan', 'pro')],
      });
      expect(outcome).toMatchObject({
        kind: 'written',
        profile: { ucid: user.ucid, linked: [] },
        leftOut: [{ identity: identity('anonymous_id:tablet'), why: 'too_large', owner: device.ucid }],
      });
      expect(await people.find('anonymous_id:tablet')).toEqual(device);
      expect(treeOf(await people.find('email:ada@x')).d).toMatchObject({ plan: 'pro' });
    });

    it('of an earlier time takes a device, and what came by it alone, from the user who had it', async () => {
      const people = stage.people();
      const at = (ts: number) => ({ ...EVENT, ts });
      await people.write(['user_id:lee', 'anonymous_id:tv'], {
        ...at(9),
        attributes: [attribute('n', 'lee', 9)],
      });
      await people.write(['anonymous_id:tv', 'email:tv@x'], {
        ...at(1),
        attributes: [attribute('cart', 'full', 1), attribute('n', 'nobody', 1)],
      });
      await people.write(['user_id:kim', 'anonymous_id:tv'], at(2));
      const [kim, lee] = [await people.find('user_id:kim'), await people.find('user_id:lee')];
      expect([treeOf(kim), identitiesOf(kim)]).toEqual([
        { d: { cart: 'full', n: 'nobody' } },
        ['anonymous_id:tv', 'email:tv@x', 'user_id:kim'],
      ]);
      expect([treeOf(lee), identitiesOf(lee)]).toEqual([{ d: { n: 'lee' } }, ['user_id:lee']]);
      expect(kim?.identities.map(({ ts }) => ts)).toEqual([2, 1, 2]);
      for (const one of [kim, lee])
        for (const ucid of [one?.ucid ?? '', ...(one?.linked ?? [])])
          expect(await people.through(stage.other()).findUcid(ucid)).toEqual(one);
      // Repeated, all of it changes nothing.
      await people.write(['user_id:lee', 'anonymous_id:tv'], at(9));
      await people.write(['user_id:kim', 'anonymous_id:tv'], at(2));
      expect(await people.search(['user_id:kim', 'user_id:lee'])).toEqual(
        [kim, lee].toSorted((a, b) => ((a?.ucid ?? '') < (b?.ucid ?? '') ? -1 : 1)),
      );
    });

    it('that is an alias restores no user who was deleted after it, under neither id', async () => {
      const people = stage.people();
      const receivedAt = Date.now() - 1;
      const alias = (user: string) =>
        people.upsert([user], {
          ...EVENT,
          receivedAt,
          happenedAt: receivedAt,
          attributes: [attribute('n', 1)],
          previousIdentity: { asUser: identity('user_id:old'), asDevice: identity('anonymous_id:old') },
        });
      await people.write(['user_id:old'], EVENT);
      const known = await people.write(['user_id:known'], EVENT);
      await people.delete(['user_id:old']);
      expect(await alias('user_id:new')).toEqual({ kind: 'refused', reason: 'nothing_left' });
      expect(await people.search(['user_id:new', 'user_id:old', 'anonymous_id:old'])).toEqual([]);
      // A known user was a different person all along, so the content of the event goes to that user.
      expect(await alias('user_id:known')).toMatchObject({ kind: 'written', profile: { ucid: known.ucid } });
      expect(identitiesOf(await people.find('user_id:known'))).toEqual(['user_id:known']);
    });
  });
}
