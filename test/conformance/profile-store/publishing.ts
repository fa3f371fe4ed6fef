import type { Profile } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { Published } from './harness.ts';
import { attribute, People } from './people.ts';
import type { Stage } from './stage.ts';

const SOON = { timeout: 15_000, interval: 20 };

export function publishing(stage: Stage): void {
  describe('every change', () => {
    it('is published: writes, merges and deletions, and nothing where nothing changed', async () => {
      const people = stage.people();
      const first = await people.write(['cookie:1'], { ts: 1 });
      const second = await people.write(['cookie:2'], { ts: 1 });
      await people.write(['cookie:1'], { ts: 1 });
      const changed = await people.write(['cookie:2'], { attributes: [attribute('n', 1)], ts: 2 });
      const merged = await people.write(['cookie:1', 'cookie:2'], { ts: 3 });
      await people.delete(['cookie:1']);
      const kinds = () => stage.published.of(first.ucid).map(({ kind }) => kind);
      await expect.poll(kinds, SOON).toEqual(['written', 'merged', 'deleted']);
      const [written, merge, deletion] = stage.published.of(first.ucid);
      const about = { ...people.scope, ucid: first.ucid };
      expect(written).toEqual({
        ...about,
        kind: 'written',
        version: first.version,
        at: first.updated_ts,
        profile: first,
        linked: [],
      });
      expect(merge).toEqual({
        ...about,
        kind: 'merged',
        version: merged.version,
        at: merged.updated_ts,
        profile: merged,
        linked: [second.ucid],
      });
      expect(deletion).toMatchObject({ ...about, kind: 'deleted', linked: [second.ucid] });
      expect(deletion).not.toHaveProperty('profile');
      expect(deletion?.version).toBeGreaterThan(merged.version);
      const others = stage.published.of(second.ucid);
      expect(others.map(({ profile }) => profile)).toEqual([second, changed]);
    });

    it('of one profile is published in the order of its versions by whoever publishes', async () => {
      const installation = await stage.installation(60_000);
      const published = [new Published(), new Published()] as const;
      const [first, second] = [
        await installation.open({ publish: published[0].publish }),
        await installation.open({ publish: published[1].publish }),
      ];
      const people = new People(first);
      const { ucid } = await people.write(['cookie:1']);
      await Promise.all(
        Array.from({ length: 60 }, (_, n) =>
          people
            .through(n % 2 === 0 ? first : second)
            .write(['cookie:1'], { attributes: [attribute('n', n)], ts: n }),
        ),
      );
      const last = await people.find('cookie:1');
      const newest = () =>
        published
          .flatMap((one) => one.of(ucid))
          .reduce((left, right) => (left.version > right.version ? left : right));
      await expect.poll(() => newest().profile, SOON).toEqual(last);
      for (const { changes } of published) {
        const firsts = changes
          .map(({ version }) => version)
          .filter((version, at, all) => all.indexOf(version) === at);
        expect(firsts).toEqual([...firsts].sort((left, right) => left - right));
      }
    });

    it('waits for who takes it, and holds no write up meanwhile', async () => {
      const installation = await stage.installation(60_000);
      const published = new Published();
      published.broken = true;
      const people = new People(await installation.open({ publish: published.publish }));
      const made: Profile[] = [];
      for (let n = 0; n < 20; n++) made.push(await people.write([`cookie:c${n}`]));
      expect(published.changes).toEqual([]);
      published.broken = false;
      await expect
        .poll(() => made.filter(({ ucid }) => published.of(ucid).length === 1).length, SOON)
        .toBe(made.length);
    });

    it('that nobody took is published by the next one who opens the store', async () => {
      const installation = await stage.installation(60_000);
      const [nobody, somebody] = [new Published(), new Published()];
      nobody.broken = true;
      const store = await installation.open({ publish: nobody.publish, tidyEveryMs: 50 });
      const people = new People(store);
      const [made, gone] = [await people.write(['cookie:1']), await people.write(['cookie:2'])];
      await people.delete(['cookie:2']);
      await store.close();
      await installation.open({ publish: somebody.publish, tidyEveryMs: 50 });
      await expect.poll(() => somebody.of(made.ucid).map(({ profile }) => profile), SOON).toEqual([made]);
      // What was written before may be told as part of it.
      await expect.poll(() => somebody.of(gone.ucid).at(-1)?.kind, SOON).toBe('deleted');
    });
  });
}
