import { hash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { attribute, EVENT, identitiesOf } from './people.ts';
import type { Stage } from './stage.ts';

export function unlinking(stage: Stage): void {
  describe('an unlink', () => {
    it('could not be: a wrong identity stayed for good, and returned with every event', async () => {
      const people = stage.people();
      const made = await people.write(['user_id:u', 'email:shared@x', 'anonymous_id:d'], {
        attributes: [attribute('n', 1)],
      });
      const outcome = await people.unlink(['email:Shared@x']);
      expect(outcome).toMatchObject({ kind: 'unlinked', notHeld: [] });
      const found = await people.find('user_id:u');
      expect(outcome).toEqual({ kind: 'unlinked', profile: found, notHeld: [] });
      expect(found).toMatchObject({ ucid: made.ucid, attributes: made.attributes });
      expect(found?.version).toBeGreaterThan(made.version);
      expect(identitiesOf(found)).toEqual(['anonymous_id:d', 'user_id:u']);
      expect(JSON.stringify(found)).not.toContain('shared');
      expect(await people.find('email:shared@x')).toBeUndefined();

      for (const happenedAt of [1, Date.now()])
        expect(
          await people.upsert(['user_id:u', 'email:shared@x'], { ...EVENT, happenedAt, ts: happenedAt }),
        ).toMatchObject({ kind: 'written', leftOut: [{ why: 'unlinked' }] });
      const hashed = `email_sha256_lowercase:${hash('sha256', 'shared@x')}`;
      expect(await people.upsert([hashed, 'user_id:u'], EVENT)).toMatchObject({
        kind: 'written',
        leftOut: [{ identity: { type: 'user_id' }, why: 'unlinked' }],
      });
      expect(identitiesOf(await people.find('user_id:u'))).not.toContain('email:shared@x');
    });

    it('lets another profile have the identity, with which no event makes the first one', async () => {
      const people = stage.people();
      const first = await people.write(['user_id:u', 'email:e@x', 'anonymous_id:d']);
      await people.unlink(['email:e@x']);
      const other = await people.write(['email:e@x', 'anonymous_id:d2'], EVENT);
      expect(other.ucid).not.toBe(first.ucid);
      expect(await people.find('email:e@x')).toEqual(other);
      // Not linked by either of its ids, in either order.
      for (const identities of [
        ['user_id:u', 'anonymous_id:d2'],
        ['anonymous_id:d2', 'anonymous_id:d'],
      ])
        expect(await people.upsert(identities, EVENT)).toMatchObject({ leftOut: [{ why: 'unlinked' }] });
      const [one, two] = [await people.find('user_id:u'), await people.find('email:e@x')];
      expect([one?.ucid, two?.ucid]).toEqual([first.ucid, other.ucid]);
    });

    it('holds until an explicit write adds the identity again', async () => {
      const people = stage.people();
      const made = await people.write(['user_id:u', 'cellphone:1']);
      await people.unlink(['cellphone:1']);
      const again = await people.write(['user_id:u', 'cellphone:1']);
      expect(again.unlinked).toBeUndefined();
      expect(await people.find('cellphone:1')).toEqual(again);
      await people.unlink(['cellphone:1']);
      await people.write(['cellphone:1', 'cookie:c'], EVENT);
      const merged = await people.write(['user_id:u', 'cookie:c']);
      expect(merged).toMatchObject({ ucid: made.ucid });
      expect(identitiesOf(merged)).toContain('cellphone:1');
      expect(merged.unlinked).toBeUndefined();
    });

    it('of a merged profile outlives further merges and is published; of several profiles or none it changes nothing', async () => {
      const people = stage.people();
      const first = await people.write(['user_id:a']);
      const second = await people.write(['email:m@x', 'cookie:m']);
      await people.write(['user_id:a', 'cookie:m']);
      const third = await people.write(['cookie:apart']);
      expect(await people.unlink(['email:m@x', 'cookie:apart'])).toEqual({
        kind: 'refused',
        reason: 'several_profiles',
        elsewhere: [1],
      });
      expect(await people.unlink(['cookie:apart'], { ucid: first.ucid })).toMatchObject({
        reason: 'several_profiles',
      });
      expect(await people.unlink(['cookie:other'])).toEqual({ kind: 'refused', reason: 'no_profile' });
      expect(await people.unlink(['cookie:m'], { ucid: stageUcid })).toEqual({
        kind: 'refused',
        reason: 'no_profile',
      });
      const done = await people.unlink(['cookie:other', 'email:m@x'], { ucid: second.ucid });
      expect(done).toMatchObject({ kind: 'unlinked', profile: { ucid: first.ucid }, notHeld: [0] });
      const joined = await people.write(['cookie:apart', 'user_id:a']);
      expect(joined.linked).toEqual([second.ucid, third.ucid].sort());
      expect(await people.upsert(['user_id:a', 'email:m@x', 'cookie:other'], EVENT)).toMatchObject({
        leftOut: [{ why: 'unlinked' }, { why: 'unlinked' }],
      });
    });

    it('keeps the deletion records of the identity, and is not a deletion', async () => {
      const people = stage.people();
      const before = Date.now() - 1_000;
      await people.write(['email:d@x']);
      await people.delete(['email:d@x']);
      await people.write(['email:d@x', 'user_id:u']);
      await people.write(['cookie:f', 'user_id:u']);
      await people.unlink(['email:d@x', 'cookie:f']);
      await people.delete(['user_id:u']);
      const late = { ...EVENT, happenedAt: before, receivedAt: Date.now() };
      expect(await people.upsert(['email:d@x'], late)).toEqual({ kind: 'refused', reason: 'nothing_left' });
      expect(await people.upsert(['cookie:f'], late)).toMatchObject({ kind: 'written' });
    });
  });
}

/** A ucid that no profile has. */
const stageUcid = '018f0000-0000-7000-8000-000000000000';
