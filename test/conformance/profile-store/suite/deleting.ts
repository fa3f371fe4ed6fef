import { describe, expect, it } from 'vitest';
import { Published } from './harness.ts';
import { attribute, EVENT, identitiesOf, identity, People, treeOf } from './people.ts';
import type { Stage } from './stage.ts';

export function deleting(stage: Stage): void {
  describe('a deletion', () => {
    it('of more values than are deleted at once finds each of them, also those of one profile', async () => {
      const people = stage.people();
      const names = Array.from({ length: 30 }, (_, n) => `cookie:c${n}`);
      const one = await people.write(names, { ts: 1 });
      const other = await people.write(['crm:x'], { ts: 1 });
      const outcome = await people.delete([...names.slice(0, 20), 'crm:y9', 'crm:x', ...names.slice(20)]);
      expect(outcome).toMatchObject({ notFound: [20] });
      expect([...outcome.deleted].sort()).toEqual([one.ucid, other.ucid].sort());
    });

    it('removes the whole record, including all profiles merged into it', async () => {
      const people = stage.people();
      const [first, second] = [
        await people.write(['cookie:c1']),
        await people.write(['cookie:c2', 'email:a@x']),
      ];
      await people.write(['cookie:c1', 'cookie:c2'], { attributes: [attribute('n', 1)] });
      expect(await people.delete(['email:a@x'])).toEqual({ deleted: [first.ucid], notFound: [] });
      for (const known of ['cookie:c1', 'cookie:c2', 'email:a@x'])
        expect(await people.find(known)).toBeUndefined();
      for (const { ucid } of [first, second]) {
        expect(await people.findUcid(ucid)).toBeUndefined();
        expect(await people.upsert([], { ucid })).toEqual({ kind: 'refused', reason: 'unknown_ucid' });
      }
    });

    it('returns each record once, and unmatched values by their index', async () => {
      const people = stage.people();
      const made = [await people.write(['cookie:c1', 'cookie:1b']), await people.write(['cookie:c2'])];
      const named = ['cookie:c99', 'cookie:c1', 'cookie:c2', 'cookie:1b', 'email:99@x'];
      const outcome = await people.delete(named);
      expect([...outcome.deleted].sort()).toEqual(made.map(({ ucid }) => ucid));
      expect(outcome.notFound).toEqual([0, 4]);
      expect(await people.delete(named)).toEqual({ deleted: [], notFound: [0, 1, 2, 3, 4] });
    });

    it('is stored: an event received before it creates no profile', async () => {
      const people = stage.people();
      const event = (receivedAt: number) => ({
        ...EVENT,
        receivedAt,
        happenedAt: receivedAt,
        ts: receivedAt,
        attributes: [attribute('n', 1)],
      });
      await people.write(['user_id:ada', 'anonymous_id:1'], event(Date.now()));
      const receivedAt = Date.now() - 1;
      await people.delete(['user_id:ada']);
      expect(await people.upsert(['user_id:ada', 'anonymous_id:1'], event(receivedAt))).toEqual({
        kind: 'refused',
        reason: 'nothing_left',
      });
      expect(await people.search(['user_id:ada', 'anonymous_id:1'])).toEqual([]);
      // The event's content belongs to the deleted person, even if it names other people too, above all on a
      // shared device.
      const elsewhere = await people.write(['user_id:eve', 'anonymous_id:2']);
      expect(await people.upsert(['user_id:ada', 'anonymous_id:2'], event(receivedAt))).toEqual({
        kind: 'refused',
        reason: 'nothing_left',
      });
      expect(await people.find('anonymous_id:2')).toEqual(elsewhere);
      const partly = await people.upsert(['user_id:eve', 'user_id:ada'], {
        ...event(receivedAt),
        linking: 'merge',
      });
      expect(partly).toMatchObject({ leftOut: [{ identity: identity('user_id:ada'), why: 'deleted' }] });
    });

    it('does not affect a later write: a new profile without data of the old one', async () => {
      const people = stage.people();
      const old = await people.write(['user_id:ada', 'email:a@x'], { attributes: [attribute('old', 1)] });
      await people.delete(['user_id:ada']);
      const anew = await people.write(['user_id:ada'], {
        ...EVENT,
        receivedAt: Date.now() + 1,
        happenedAt: Date.now() + 1,
        attributes: [attribute('new', 1)],
      });
      expect(anew.ucid).not.toBe(old.ucid);
      expect([treeOf(anew), anew.linked]).toEqual([{ d: { new: 1 } }, []]);
      expect(await people.find('email:a@x')).toBeUndefined();
      const again = await people.write(['email:a@x', 'user_id:ada']);
      expect([again.ucid, identitiesOf(again)]).toEqual([anew.ucid, ['email:a@x', 'user_id:ada']]);
      expect(await people.delete(['email:a@x'])).toEqual({ deleted: [anew.ucid], notFound: [] });
    });

    it('is still stored after a new write, by a call or a newer event', async () => {
      const people = stage.people();
      const event = (receivedAt: number, n: number) => ({
        ...EVENT,
        receivedAt,
        happenedAt: receivedAt,
        ts: receivedAt,
        attributes: [attribute(`n-${n}`, n)],
      });
      const before = Date.now() - 1;
      for (const user of ['user_id:ada', 'user_id:bob']) {
        await people.write([user], event(before, 0));
        await people.delete([user]);
      }
      const anew = [
        await people.write(['user_id:ada']),
        await people.write(['user_id:bob'], event(Date.now() + 1, 1)),
      ];
      for (const user of ['user_id:ada', 'user_id:bob'])
        expect(await people.upsert([user], event(before, 2))).toEqual({
          kind: 'refused',
          reason: 'nothing_left',
        });
      // Also when the newly written profile was merged into another.
      const merged = await people.write(['cookie:older', 'user_id:ada']);
      expect(await people.upsert(['user_id:ada'], event(before, 3))).toEqual({
        kind: 'refused',
        reason: 'nothing_left',
      });
      expect(await people.find('user_id:ada')).toEqual(merged);
      expect(await people.find('user_id:bob')).toEqual(anew[1]);
    });

    it('is stored until events received before it are too old', async () => {
      const retentionMs = 60_000;
      const installation = await stage.installation(retentionMs);
      let now = Date.now();
      const [clock, tidyEveryMs] = [() => now, 20];
      const store = await installation.open({ publish: new Published().publish, clock, tidyEveryMs });
      const people = new People(store);
      const receivedAt = now - 1;
      const event = () =>
        people.upsert(['user_id:ada', 'email:a@x'], { ...EVENT, receivedAt, happenedAt: receivedAt });
      await event();
      const kept = await people.write(['user_id:eve']);
      await people.delete(['user_id:ada']);
      const severalSweeps = () => new Promise((resolve) => setTimeout(resolve, 10 * tidyEveryMs));
      now += retentionMs - 1;
      await severalSweeps();
      expect(await event()).toEqual({ kind: 'refused', reason: 'nothing_left' });
      for (const later of [1, retentionMs, 1_000 * retentionMs]) {
        now += later;
        await severalSweeps();
        expect(await event()).toEqual({ kind: 'refused', reason: 'too_old' });
      }
      expect(await people.find('user_id:ada')).toBeUndefined();
      const anew = await people.write(['user_id:ada'], { ...EVENT, receivedAt: now, happenedAt: now });
      expect(await people.find('email:a@x')).toBeUndefined();
      expect(await people.find('user_id:ada')).toEqual(anew);
      expect(await people.find('user_id:eve')).toEqual(kept);
    });
  });
}
