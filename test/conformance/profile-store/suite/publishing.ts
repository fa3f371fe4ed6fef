import type { Profile } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { Published } from './harness.ts';
import { attribute, People } from './people.ts';
import type { Stage } from './stage.ts';

const SOON = { timeout: 60_000, interval: 20 };

export function publishing(stage: Stage): void {
  describe('every change', () => {
    it('is published: writes, merges and deletions, and nothing where nothing changed', async () => {
      const people = stage.people();
      // Several writes to one profile before publishing may be published as one change.
      const told = async (profile: Profile) => {
        const versions = () => stage.published.of(profile.ucid).map(({ version }) => version);
        await expect.poll(versions, SOON).toContain(profile.version);
        return profile;
      };
      const first = await told(await people.write(['cookie:1'], { ts: 1 }));
      const second = await told(await people.write(['cookie:2'], { ts: 1 }));
      await people.write(['cookie:1'], { ts: 1 });
      const changed = await told(
        await people.write(['cookie:2'], { attributes: [attribute('n', 1)], ts: 2 }),
      );
      const merged = await told(await people.write(['cookie:1', 'cookie:2'], { ts: 3 }));
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

    it('of one profile is published in the order of its versions by every publisher', async () => {
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

    it('left unpublished is published by the next process that opens the store', async () => {
      const installation = await stage.installation(60_000);
      const [nobody, somebody] = [new Published(), new Published()];
      nobody.broken = true;
      const store = await installation.open({ publish: nobody.publish, tidyEveryMs: 50 });
      const people = new People(store);
      const kept = await people.write(['cookie:kept']);
      const made = await people.write(['cookie:1']);
      await people.delete(['cookie:1']);
      await store.close();
      await installation.open({ publish: somebody.publish, tidyEveryMs: 50 });
      await expect
        .poll(() => [somebody.of(made.ucid).at(-1)?.kind, somebody.of(kept.ucid).at(-1)?.profile], SOON)
        .toEqual(['deleted', kept]);
    });

    it('is published by a process that can, while another one with the store open cannot', async () => {
      const installation = await stage.installation(60_000);
      const [broken, healthy] = [new Published(), new Published()];
      broken.broken = true;
      const people = new People(await installation.open({ publish: broken.publish, tidyEveryMs: 50 }));
      const alone = await people.write(['cookie:alone']);
      const other = await installation.open({ publish: healthy.publish, tidyEveryMs: 50 });
      const first = await people.write(['cookie:1']);
      const own = await people.through(other).write(['cookie:2']);
      const made = [alone, first, own, await people.write(['cookie:3'])];
      const toldOf = (some: typeof made) => some.map(({ ucid }) => healthy.of(ucid).at(-1)?.profile);
      const expected = stage.harness.publishesForOthers ? made : [own];
      await expect.poll(() => toldOf(expected), SOON).toEqual(expected);
      expect(broken.changes).toEqual([]);
      // In the end every change is published, also those of a process that failed to publish.
      broken.broken = false;
      const last = ({ ucid }: (typeof made)[number]) =>
        [...healthy.of(ucid), ...broken.of(ucid)].at(-1)?.profile;
      await expect.poll(() => made.map(last), SOON).toEqual(made);
    });

    it('that waited long is published as the newest version, every merge and every deletion', async () => {
      const installation = await stage.installation(60_000);
      const published = new Published();
      published.broken = true;
      const people = new People(await installation.open({ publish: published.publish, tidyEveryMs: 50 }));
      for (let n = 0; n < 10; n++)
        await people.write(['cookie:often'], { attributes: [attribute('n', n)], ts: n });
      const often = await people.find('cookie:often');
      const merges = [await people.write(['cookie:1']), await people.write(['cookie:2'])] as const;
      const merged = await people.write(['cookie:1', 'cookie:2', 'cookie:3']);
      const gone = [await people.write(['cookie:4']), await people.write(['cookie:5'])] as const;
      await people.write(['cookie:4', 'cookie:5']);
      await people.delete(['cookie:5']);
      published.broken = false;
      const last = (ucid: string) => published.of(ucid).at(-1);
      await expect.poll(() => last(gone[0].ucid)?.kind, SOON).toBe('deleted');
      await expect.poll(() => last(often?.ucid ?? '')?.profile, SOON).toEqual(often);
      await expect.poll(() => last(merged.ucid)?.profile, SOON).toEqual(merged);
      const linkedBy = (ucid: string) => published.of(ucid).flatMap(({ linked }) => linked);
      expect(linkedBy(merges[0].ucid)).toEqual([merges[1].ucid]);
      expect(linkedBy(gone[0].ucid)).toContain(gone[1].ucid);
      for (const { ucid } of [merges[0], gone[0]]) {
        const versions = published.changes.filter((one) => one.ucid === ucid).map(({ version }) => version);
        expect(versions).toEqual([...versions].sort((left, right) => left - right));
      }
    });
  });
}
