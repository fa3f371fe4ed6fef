import { type LiveTail, RECENT_EVENTS, type TailLimits, Unavailable } from '@tributary/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../../helpers/client.ts';
import {
  batch,
  events,
  follow,
  LIMITS,
  type LiveTailHarness,
  OTHER_ID,
  said,
  WORKSPACE_ID,
} from './harness.ts';

/** The contract of the `LiveTail` port. */
export function liveTailConformance(harness: LiveTailHarness): void {
  async function openSetup(limits: TailLimits = LIMITS) {
    const setup = await harness.create(limits);
    onTestFinished(() => setup.dispose());
    const keep = async (opening: Promise<LiveTail>) => {
      const tail = await opening;
      onTestFinished(() => tail.close());
      return tail;
    };
    const writer = await keep(setup.openWriter());
    return { writer, openReader: () => keep(setup.openReader()) };
  }

  describe(`a live tail: ${harness.name}`, () => {
    it('starts with the recent events, then delivers each new one, in order', async () => {
      const { writer, openReader } = await openSetup();
      await writer.append(batch(events(0, 150)));
      const reader = await openReader();
      const following = await follow(reader);
      expect(following.data()).toEqual(said(150 - RECENT_EVENTS, 150));
      await writer.append(batch(events(150, 151)));
      await writer.append(batch(events(151, 170)));
      await eventually(following.data, (data) => data.length === RECENT_EVENTS + 20);
      expect(following.data()).toEqual(said(150 - RECENT_EVENTS, 170));
      expect(following.items.every(({ kind }) => kind === 'event')).toBe(true);
    });

    it('stores a replayed batch once, with any batch boundaries', async () => {
      const { writer, openReader } = await openSetup();
      expect(await writer.append(batch(events(0, 10)))).toBe(0);
      expect(await writer.append(batch(events(0, 10)))).toBe(10);
      expect(await writer.append(batch(events(5, 15)))).toBe(10);
      expect(await writer.append(batch(events(2, 7)))).toBe(15);
      expect(await writer.append(batch(events(15, 16)))).toBe(0);
      const following = await follow(await openReader());
      expect(following.data()).toEqual(said(0, 16));
    });

    it('marks each partition separately, and accepts gaps of offsets', async () => {
      const { writer, openReader } = await openSetup();
      await writer.append(batch(events(100, 102)));
      await writer.append(batch(events(3, 5), { partition: 1 }));
      await writer.append(batch(events(7, 8), { topic: 'events.rejected' }));
      await writer.append(batch(events(200, 201)));
      const following = await follow(await openReader());
      expect(following.data()).toEqual([100, 101, 3, 4, 7, 200].map((n) => `{"n":${n}}`));
    });

    it('stores a recreated topic from its start', async () => {
      const { writer, openReader } = await openSetup();
      await writer.append(batch(events(0, 50)));
      expect(await writer.append(batch(events(0, 3)))).toBe(50);
      expect(await writer.append(batch(events(0, 3), { end: 3 }))).toBe(0);
      expect(await writer.append(batch(events(0, 3), { end: 3 }))).toBe(3);
      const following = await follow(await openReader());
      expect(following.data()).toEqual([...said(0, 50), ...said(0, 3)]);
    });

    it('resumes after a position without a gap or duplicate, also in another process', async () => {
      const { writer, openReader } = await openSetup();
      await writer.append(batch(events(0, 30)));
      const first = await follow(await openReader());
      const lastId = first.events()[12]?.id ?? '';
      expect(lastId).toMatch(/^[0-9a-z-]+$/);
      expect(lastId.length).toBeLessThanOrEqual(80);
      const last = first.lastId() ?? '';
      first.close();
      await writer.append(batch(events(30, 40)));
      const reader = await openReader();
      const following = await follow(reader, { after: lastId });
      expect(following.data()).toEqual(said(13, 40));
      expect((await follow(reader, { after: last })).data()).toEqual(said(30, 40));
      expect((await follow(reader, { after: following.lastId() ?? '' })).items).toEqual([]);
      const kinds = new Set(following.items.map(({ kind }) => kind));
      expect(kinds).toEqual(new Set(['event']));
      const ids = first.events().map(({ id }) => id);
      expect(following.events().map(({ id }) => id)).toEqual(expect.arrayContaining(ids.slice(13)));
      expect(new Set(ids).size).toBe(30);
    });

    it('reports to a late follower how many events are no longer kept, and delivers the rest', async () => {
      const { writer, openReader } = await openSetup();
      const reader = await openReader();
      await writer.append(batch(events(0, 10)));
      const first = await follow(reader);
      const lastId = first.lastId() ?? '';
      first.close();
      for (let n = 10; n < 410; n += 10) await writer.append(batch(events(n, n + 10)));
      const following = await follow(await openReader(), { after: lastId });
      const [missed, ...rest] = following.items;
      const kept = following.data();
      expect(missed).toEqual({ kind: 'missed', count: 400 - kept.length });
      expect(rest).toHaveLength(kept.length);
      expect(kept).toEqual(said(410 - kept.length, 410));
      expect(kept.length).toBeLessThanOrEqual(LIMITS.events);
      expect(kept.length).toBeGreaterThan(LIMITS.events / 2);
    });

    it('reports to a follower that does not read how many events are no longer kept', async () => {
      const { writer, openReader } = await openSetup();
      const reader = await openReader();
      await writer.append(batch(events(0, 10)));
      const follower = await reader.follow(WORKSPACE_ID, { wake() {} });
      const before = follower.take(20).length;
      expect(before).toBeLessThan(10);
      const quick = await follow(reader);
      for (let n = 10; n < 1_010; n += 100) await writer.append(batch(events(n, n + 100)));
      await eventually(quick.data, (data) => data.at(-1) === '{"n":1009}');
      const [missed, ...rest] = follower.take(1_000_000);
      expect(missed).toEqual({ kind: 'missed', count: 1_010 - before - rest.length });
      expect(rest.length).toBeGreaterThan(LIMITS.events / 2);
      expect(rest.length).toBeLessThanOrEqual(LIMITS.events);
      expect(rest.map((item) => item.kind === 'event' && item.event.data)).toEqual(
        said(1_010 - rest.length, 1_010),
      );
      expect(follower.take(1_000_000)).toEqual([]);
      follower.close();
    });

    it.each([
      '',
      'nonsense',
      '-',
      '0-0-0',
      'zzzz-0-3',
      `${'9'.repeat(5)}-1-5`,
      'a'.repeat(1_000),
      '../..',
      '1-1-99999999999999',
    ])(
      'reports an unknown number of missing events for an unknown position (%j), and starts with all kept events',
      async (after) => {
        const { writer, openReader } = await openSetup();
        await writer.append(batch(events(0, 130)));
        const following = await follow(await openReader(), { after });
        expect(following.items[0]).toEqual({ kind: 'missed' });
        expect(following.data()).toEqual(said(0, 130));
      },
    );

    it('keeps its limits with large events and any followers', async () => {
      const { writer, openReader } = await openSetup();
      const reader = await openReader();
      const watching = await follow(reader);
      const large = (n: number) => `{"n":${n},"x":"${'x'.repeat(5_000)}"}`;
      for (let n = 0; n < 40; n++) await writer.append(batch(events(n, n + 1, { data: large(n) })));
      await eventually(watching.data, (data) => data.at(-1) === large(39));
      const kept = (await follow(await openReader(), { after: 'nonsense' })).data();
      expect(kept.at(-1)).toBe(large(39));
      expect(kept.join('').length).toBeLessThanOrEqual(LIMITS.characters);
      expect(kept.length).toBeGreaterThan(3);
    });

    it('keeps one event that is larger than the limit', async () => {
      const { writer, openReader } = await openSetup({ ...LIMITS, characters: 100 });
      const data = `{"x":"${'x'.repeat(1_000)}"}`;
      await writer.append(batch([...events(0, 3), ...events(3, 4, { data })]));
      expect((await follow(await openReader())).data()).toEqual([data]);
    });

    it('returns about the requested size, and at least one event', async () => {
      const { writer, openReader } = await openSetup();
      await writer.append(batch(events(0, 100)));
      const follower = await (await openReader()).follow(WORKSPACE_ID, {
        wake() {},
      });
      expect(follower.take(1)).toHaveLength(1);
      const size = '{"n":50}'.length;
      expect(follower.take(size * 10).length).toBeGreaterThanOrEqual(10);
      expect(follower.take(size * 10).length).toBeLessThanOrEqual(12);
      follower.close();
      follower.close();
    });

    it('returns every character and the environment unchanged', async () => {
      const { writer, openReader } = await openSetup();
      const text = JSON.stringify({ text: 'a\nb "q" \u2028 ☃ 😀 \u0000 d{"}' });
      await writer.append(
        batch([...events(0, 1, { data: text, environment: 'development' }), ...events(1, 2)]),
      );
      const following = await follow(await openReader());
      expect(following.events()).toMatchObject([
        { data: text, environment: 'development' },
        { data: '{"n":1}', environment: 'production' },
      ]);
    });

    it('returns only events of the workspace', async () => {
      const { writer, openReader } = await openSetup();
      const reader = await openReader();
      const [mine, others] = [await follow(reader), await follow(reader, { workspaceId: OTHER_ID })];
      await writer.append(batch([...events(0, 3), ...events(3, 5, { workspaceId: OTHER_ID })]));
      await eventually(
        () => mine.data().length + others.data().length,
        (count) => count === 5,
      );
      expect(mine.data()).toEqual(said(0, 3));
      expect(others.data()).toEqual(said(3, 5));
      const after = mine.lastId() ?? '';
      const astray = await follow(reader, { workspaceId: OTHER_ID, after });
      expect(astray.data().filter((data) => said(0, 3).includes(data))).toEqual([]);
    });

    it('delivers every event once to every follower while several partitions write', async () => {
      const { writer, openReader } = await openSetup({ ...LIMITS, events: 10_000, characters: 1_000_000 });
      const reader = await openReader();
      const following = await Promise.all(Array.from({ length: 5 }, () => follow(reader, { turn: 50 })));
      await Promise.all(
        [0, 1, 2].map(async (partition) => {
          for (let n = 0; n < 300; n += 7) {
            const some = events(n, Math.min(300, n + 7)).map((event) => ({
              ...event,
              data: `${partition}:${event.offset}`,
            }));
            await writer.append(batch(some, { partition }));
          }
        }),
      );
      for (const { data, items } of following) {
        await eventually(data, (all) => all.length >= 900);
        expect(items.filter(({ kind }) => kind !== 'event')).toEqual([]);
        for (const partition of [0, 1, 2]) {
          const own = data().filter((one) => one.startsWith(`${partition}:`));
          expect(own).toEqual(Array.from({ length: 300 }, (_, n) => `${partition}:${n}`));
        }
      }
    });

    it('drops a tail without events for its retention', async () => {
      const { writer, openReader } = await openSetup({ ...LIMITS, retentionMs: 300 });
      const early = await openReader();
      // On a busy machine a tail may expire before it is read: then there are more events.
      let sent = 0;
      const appendOne = () => writer.append(batch(events(sent, ++sent)));
      const first = await eventually(
        async () => {
          await appendOne();
          return follow(early);
        },
        (following) => following.data().length > 0,
      );
      const lastId = first.lastId() ?? '';
      first.close();
      await new Promise((resolve) => setTimeout(resolve, 500));
      const before = sent;
      const anew = await follow(await openReader(), { after: lastId });
      expect(anew.items).toEqual([{ kind: 'missed' }]);
      await eventually(async () => {
        await appendOne();
        return anew.data().length;
      }, Boolean);
      expect(anew.items.slice(1).map(({ kind }) => kind)).toEqual(anew.data().map(() => 'event'));
      expect(said(before, sent)).toEqual(expect.arrayContaining([...anew.data()]));
    });

    it('refuses followers once it is closed', async () => {
      const { openReader } = await openSetup();
      const reader = await openReader();
      await reader.close();
      await reader.close();
      await expect(follow(reader)).rejects.toThrow(Unavailable);
    });
  });
}
