import { competingClaimWrite, type IdentityLimits, isSetAside, type ProfileWrite } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { EVENT, identitiesOf, identity, type People } from './people.ts';
import type { Stage } from './stage.ts';

const limits: IdentityLimits = {
  types: [
    { type: 'anonymous_id', max: 3, drop_oldest: true },
    { type: 'email', max: 2, drop_oldest: false },
  ],
  user_ids: 3,
};

/** Profiles with more identities than their limit, and identities shared by more people than their limit. */
export function crowds(stage: Stage): void {
  describe('a profile with more devices than it has room for', () => {
    const device = (people: People, n: number, ts = n) =>
      people.upsert(['user_id:u', `anonymous_id:d${n}`], { ...EVENT, limits, ts });

    it('merged of two keeps the newest of both; the others have no owner and are not deleted with it', async () => {
      const people = stage.people();
      for (const n of [1, 3, 5]) await people.write(['crm:a', `anonymous_id:m${n}`], { limits, ts: n });
      for (const n of [2, 4, 6]) await people.write(['crm:b', `anonymous_id:m${n}`], { limits, ts: n });
      const merged = await people.write(['crm:a', 'crm:b'], { limits });
      expect(identitiesOf(merged)).toEqual([
        'anonymous_id:m4',
        'anonymous_id:m5',
        'anonymous_id:m6',
        'crm:a',
        'crm:b',
      ]);
      for (const n of [1, 2, 3]) expect(await people.find(`anonymous_id:m${n}`)).toBeUndefined();
      await people.write(['anonymous_id:m3'], EVENT);
      await people.delete(['crm:a']);
      expect(identitiesOf(await people.find('anonymous_id:m3'))).toEqual(['anonymous_id:m3']);
    });

    it('has the newest of all that many writers of two processes bring at once, and each leads to one', async () => {
      const people = stage.people();
      const there = people.through(stage.other());
      await Promise.all(Array.from({ length: 10 }, (_, n) => device(n % 2 === 0 ? people : there, 100 + n)));
      const found = await people.find('user_id:u');
      expect(identitiesOf(found)).toEqual([
        'anonymous_id:d107',
        'anonymous_id:d108',
        'anonymous_id:d109',
        'user_id:u',
      ]);
      for (let n = 0; n < 7; n++) expect(await people.find(`anonymous_id:d${100 + n}`)).toBeUndefined();
    });
  });

  describe('an identity that more users share than the bound', () => {
    const shared = identity('email:desk@office.example');
    const guest = async (people: People, n: number) => {
      const names = [`user_id:g${n}`, 'email:desk@office.example'];
      const outcome = await people.upsert(names, { ...EVENT, limits });
      if (outcome.kind === 'refused') throw new Error(outcome.reason);
      const write: ProfileWrite = {
        ...people.scope,
        identities: [],
        attributes: [],
        preferences: [],
        consents: [],
        limits,
        ...EVENT,
      };
      for (const { identity: one, claimant } of outcome.leftOut)
        if (claimant !== undefined)
          await people.store.upsert(competingClaimWrite(write, { identity: one, claimant }));
    };

    it('gave the first of them the events of all: it is marked as shared, whoever writes at once', async () => {
      const people = stage.people();
      const there = people.through(stage.other());
      await guest(people, 0);
      await Promise.all([1, 2, 3, 1, 2, 3].map((n, at) => guest(at % 2 === 0 ? people : there, n)));
      const owner = await people.find('email:desk@office.example');
      expect(identitiesOf(owner)).toContain('user_id:g0');
      expect(owner && isSetAside(owner, shared, limits)).toBe(true);
      const late = await there.upsert(['anonymous_id:n', 'email:desk@office.example'], { ...EVENT, limits });
      expect(late).toMatchObject({
        kind: 'written',
        leftOut: [{ identity: shared, why: 'shared', owner: owner?.ucid }],
      });
      expect(identitiesOf(await people.find('anonymous_id:n'))).toEqual(['anonymous_id:n']);
      await people.unlink(['email:desk@office.example']);
      expect((await people.find('user_id:g0'))?.shared).toBeUndefined();
    });
  });
}
