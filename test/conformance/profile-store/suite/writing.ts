import { hash } from 'node:crypto';
import { DEFAULT_PROFILE_BOUNDS, MAX_PROFILE_BOUNDS, newId, recordOf } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { attribute, identitiesOf, treeOf } from './people.ts';
import type { Stage } from './stage.ts';

export function writing(stage: Stage): void {
  describe('a write', () => {
    it('keeps the digits of a number that a double cannot hold, through later writes and merges', async () => {
      const people = stage.people();
      const order = JSON.rawJSON('7412589630147852369') as never;
      await people.write(['email:big@example.com'], {
        attributes: [
          { path: ['d', 'order'], value: order },
          { path: ['n'], value: order },
        ],
      });
      await people.write(['AdId:big'], { attributes: [attribute('gender', 'f', 5)] });
      const merged = await people.write(['email:big@example.com', 'AdId:big']);
      const found = await people.find('AdId:big');
      for (const profile of [merged, found]) {
        if (profile === undefined) throw new Error('no profile');
        const text = JSON.stringify(recordOf(profile).profile);
        expect(text.match(/7412589630147852369/g)).toHaveLength(2);
        expect(text).not.toContain('rawJSON');
      }
    });

    it('of an unknown person makes a profile, which is found at once by all its identities', async () => {
      const people = stage.people();
      const before = Date.now();
      const made = await people.write(['email:Ada@Example.com', 'AdId:x'], {
        attributes: [attribute('gender', 'f', 5), { path: ['plan'], value: { tier: ['gold', null] } }],
        preferences: [{ name: 'mail', value: { type: 'mail', value: 'yes' }, ts: 6 }],
        consents: [{ name: 'terms', value: 'no' }],
        ts: 7,
      });
      expect(made).toMatchObject({
        ...people.scope,
        version: 1,
        linked: [],
        identities: [
          { type: 'AdId', value: 'x', ts: 7 },
          { type: 'email', value: 'ada@example.com', ts: 7 },
        ],
        attributes: [
          { path: ['d', 'gender'], value: 'f', ts: 5 },
          { path: ['plan'], value: { tier: ['gold', null] }, ts: 7 },
        ],
        preferences: [{ name: 'mail', value: { type: 'mail', value: 'yes' }, ts: 6 }],
        consents: [{ name: 'terms', value: 'no', ts: 7 }],
      });
      expect(made.created_ts).toBeGreaterThanOrEqual(before);
      expect(made.updated_ts).toBe(made.created_ts);
      for (const known of ['email:ada@example.com', 'AdId:x']) expect(await people.find(known)).toEqual(made);
      expect(await people.findUcid(made.ucid)).toEqual(made);
      const hashed = `email_sha256_lowercase:${hash('sha256', 'ada@example.com')}`;
      expect(await people.find(hashed)).toEqual(made);
      expect(await people.find('AdId:X')).toBeUndefined();
    });

    it('of a known person changes the one profile, its time and its version', async () => {
      const people = stage.people();
      const made = await people.write(['email:a@x'], { attributes: [attribute('n', 1)], ts: 5 });
      const next = await people.write(['email:a@x', 'cellphone:1'], {
        attributes: [attribute('n', 2)],
        ts: 6,
      });
      expect(next).toMatchObject({ ucid: made.ucid, created_ts: made.created_ts });
      expect(next.version).toBeGreaterThan(made.version);
      expect(next.updated_ts).toBeGreaterThan(made.updated_ts);
      expect(treeOf(next)).toEqual({ d: { n: 2 } });
      expect(await people.find('cellphone:1')).toEqual(next);
    });

    it('that repeats, or is late, changes nothing newer, and then not the version', async () => {
      const people = stage.people();
      const newest = { attributes: [attribute('n', 'new')], consents: [{ name: 'c', value: 'new' }], ts: 9 };
      const made = await people.write(['email:a@x'], newest);
      expect(await people.write(['email:a@x'], newest)).toEqual(made);
      expect(
        await people.write(['email:a@x'], {
          attributes: [attribute('n', 'old')],
          consents: [{ name: 'c', value: 'old' }],
          ts: 8,
        }),
      ).toEqual(made);
      expect(await people.write([], { ucid: made.ucid })).toEqual(made);
      expect(await people.find('email:a@x')).toEqual(made);
    });

    it('keeps any words as they are, and lets none of them pollute anything', async () => {
      const people = stage.people();
      const words = ['__proto__', 'constructor', 'a\0b', 'é🚀', '"\\\n\u2028', '%_*', "'; DROP TABLE"];
      const made = await people.write(
        // A value of only `__proto__` is the leftover of a template and identifies no person.
        words.map((word, at) => `id_${at}:v${word}`),
        { attributes: words.map((word) => ({ path: [word, word], value: word })), ts: 1 },
      );
      expect(await people.findUcid(made.ucid)).toEqual(made);
      expect(treeOf(made)).toEqual(
        Object.fromEntries(words.map((word) => [word, Object.fromEntries([[word, word]])])),
      );
      for (const [at, word] of words.entries())
        expect((await people.find(`id_${at}:v${word}`))?.ucid).toBe(made.ucid);
      expect(await people.find('id_2:va')).toBeUndefined();
    });

    it('that names several makes them one: the first created, with everything newest of all', async () => {
      const people = stage.people();
      const [first, second, third] = [
        await people.write(['email:a@x', 'cookie:c1'], {
          attributes: [attribute('n', 1), attribute('old', 1)],
          ts: 1,
        }),
        await people.write(['email:b@x', 'cookie:c2'], {
          attributes: [attribute('n', 2), attribute('b', 2)],
          ts: 3,
        }),
        await people.write(['email:c@x', 'cookie:c3'], {
          attributes: [attribute('n', 3), attribute('c', 3)],
          ts: 2,
        }),
      ];
      const one = await people.write(['email:c@x', 'email:a@x', 'email:b@x'], { ts: 4 });
      expect(one).toMatchObject({ ucid: first.ucid, created_ts: first.created_ts });
      expect(one.linked).toEqual([second.ucid, third.ucid].sort());
      expect(treeOf(one)).toEqual({ d: { n: 2, old: 1, b: 2, c: 3 } });
      for (const known of ['email:a@x', 'email:b@x', 'email:c@x', 'cookie:c1', 'cookie:c2', 'cookie:c3'])
        expect(await people.find(known)).toEqual(one);
      for (const { ucid } of [first, second, third]) expect(await people.findUcid(ucid)).toEqual(one);
      expect(await people.search(['cookie:c1', 'cookie:c2'], [third.ucid])).toEqual([one]);
    });

    it('leads every ucid there ever was to the one that is left, through any chain of merges', async () => {
      const people = stage.people();
      const ucids: string[] = [];
      for (let n = 0; n < 6; n++) ucids.push((await people.write([`cookie:c${n}`])).ucid);
      for (let n = 4; n >= 0; n--) await people.write([`cookie:c${n}`, `cookie:c${n + 1}`]);
      for (const ucid of ucids) expect((await people.findUcid(ucid))?.ucid).toBe(ucids[0]);
      const written = await people.write([], { ucid: ucids[5] ?? '', attributes: [attribute('n', 1)] });
      expect([written.ucid, written.linked]).toEqual([ucids[0], ucids.slice(1)]);
      const more = await people.write(['cookie:new'], { ucid: ucids[3] ?? '' });
      expect(identitiesOf(more)).toHaveLength(7);
    });

    it('to a ucid that is not there is refused and writes nothing', async () => {
      const people = stage.people();
      expect(await people.upsert(['cookie:c1'], { ucid: newId() })).toEqual({
        kind: 'refused',
        reason: 'unknown_ucid',
      });
      expect(await people.find('cookie:c1')).toBeUndefined();
    });

    it('that would make a profile too large is refused, and changes nothing', async () => {
      const people = stage.people();
      const { bytes, values } = DEFAULT_PROFILE_BOUNDS;
      const half = (name: string) =>
        [0, 1, 2, 3].map((n) => attribute(`${name}-${n}`, 'é'.repeat(bytes / 16 - 20)));
      const made = await people.write(['email:a@x'], { attributes: half('a'), ts: 1 });
      const other = await people.write(['email:b@x'], { attributes: half('b'), ts: 1 });
      const refused = { kind: 'refused', reason: 'too_large', excess: { of: 'bytes', limit: bytes } };
      const both = ['email:a@x', 'email:b@x'];
      expect(await people.upsert(['email:a@x'], { attributes: half('c') })).toMatchObject(refused);
      expect(await people.upsert(both, { attributes: [attribute('n', 'x'.repeat(3_000))] })).toMatchObject(
        refused,
      );
      const many = Array.from({ length: values + 1 }, (_, n) => attribute(`n-${n}`, 1));
      expect(await people.upsert(['email:c@x'], { attributes: many })).toMatchObject({
        excess: { of: 'values', limit: values, size: values + 1 },
      });
      const [first] = await people.search(both);
      expect(
        await people.upsert(['email:a@x'], { attributes: [attribute('v', 'x'.repeat(66_000))] }),
      ).toMatchObject({
        excess: { of: 'value_bytes', limit: bytes / 4, ucid: first?.ucid },
      });
      expect(await people.find('email:a@x')).toEqual(made);
      expect(await people.find('email:b@x')).toEqual(other);
      expect(await people.find('email:c@x')).toBeUndefined();
    });

    it('says what it cost beyond an ordinary one: what it read and rewrote', async () => {
      const people = stage.people();
      const many = Array.from({ length: 1_500 }, (_, n) => attribute(`name-${n}`, 'x'.repeat(50)));
      expect(await people.upsert(['email:a@x'], { attributes: [attribute('n', 1)] })).not.toHaveProperty(
        'charge',
      );
      const large = await people.upsert(['email:a@x'], { attributes: many });
      const size = JSON.stringify(large.kind === 'written' ? large.profile : '').length - 32 * 1024;
      const small = { attributes: [attribute('n', 2)] };
      for (const outcome of [large, await people.upsert(['email:a@x'], small)])
        expect(Math.abs((outcome.charge ?? 0) - size)).toBeLessThan(500);
      const refused = await people.upsert(['email:a@x'], {
        attributes: [attribute('v', 'x'.repeat(66_000))],
      });
      expect(refused).toMatchObject({ kind: 'refused', charge: expect.any(Number) });
    });

    it('to a profile that an earlier release let grow beyond the bounds is done where it does not grow', async () => {
      const people = stage.people();
      const many = Array.from({ length: 3_000 }, (_, n) => attribute(`n-${n}`, `value ${n}`));
      const bounds = MAX_PROFILE_BOUNDS;
      await people.write(['email:a@x', 'crm:a'], { attributes: many, ts: 1, bounds });
      const change = (name: string, value: string) =>
        people.upsert(['email:a@x'], { attributes: [attribute(name, value)], ts: 2 });
      expect(await change('n-7', 'value 8')).toMatchObject({ kind: 'written' });
      expect(await change('new', 'x')).toMatchObject({ reason: 'too_large' });
      const unset = { ...attribute('n-8', 0), value: null, unset: true as const };
      expect(await people.upsert(['email:a@x'], { attributes: [unset], ts: 3 })).toMatchObject({
        kind: 'written',
      });
      const whole = many.map(({ path }) => ({ path, value: 'value' }));
      expect(await people.upsert(['email:a@x'], { attributes: whole, ts: 4 })).toMatchObject({
        kind: 'written',
      });
      await people.write(['email:b@x'], { attributes: [attribute('other', 1)], ts: 1 });
      expect(await people.upsert(['email:a@x', 'email:b@x'])).toMatchObject({ reason: 'too_large' });
      expect(await people.unlink(['crm:a', 'crm:b'])).toMatchObject({ kind: 'unlinked' });
      expect(treeOf(await people.find('email:a@x')).d).toMatchObject({ 'n-7': 'value', 'n-2999': 'value' });
      expect(await people.delete(['email:a@x'])).toMatchObject({ notFound: [] });
    });
  });

  describe('a search', () => {
    it('finds all owners of any of the values, each once, oldest first', async () => {
      const people = stage.people();
      const made = [];
      for (let n = 0; n < 5; n++) made.push(await people.write([`cookie:c${n}`, `email:${n}@x`]));
      const all = ['email:4@x', 'cookie:c0', 'cookie:c4', 'cookie:c99', 'email:2@x'];
      expect(await people.search(all, [made[1]?.ucid ?? '', newId()])).toEqual([
        made[0],
        made[1],
        made[2],
        made[4],
      ]);
      expect(await people.search([])).toEqual([]);
      expect(await people.search(['cookie:c99'], ['no-uuid'])).toEqual([]);
    });
  });
}
