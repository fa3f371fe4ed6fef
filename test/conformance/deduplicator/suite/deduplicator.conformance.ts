import type { Deduplicator } from '@tributary/core';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Child } from '../../../helpers/child.ts';
import { RACE_IDS, STREAM_BATCH } from '../programs/claimer.ts';
import { type DeduplicatorHarness, type DeduplicatorStore, dedupeClaim } from './harness.ts';

const WINDOW_MS = 4_000;
const KILLS = process.env.TRIBUTARY_TEST_LONG ? 30 : 2;
const KILLS_WITHIN_MS = 10_000 + KILLS * 15_000;
const CLAIMER = new URL('../programs/claimer.ts', import.meta.url);

/** The contract of the `Deduplicator` port. */
export function deduplicatorConformance(harness: DeduplicatorHarness): void {
  describe(`the ${harness.name} deduplicator`, () => {
    let store: DeduplicatorStore;
    let deduplicator: Deduplicator;
    const children: Child[] = [];
    beforeEach(async () => {
      store = await harness.create(WINDOW_MS);
      deduplicator = await store.open();
    });
    afterEach(async () => {
      await Promise.all(children.splice(0).map((child) => child.kill()));
      await deduplicator.close();
      await store.dispose();
    });

    const claim = async (messageId: string, offset: number) =>
      (await deduplicator.claim([dedupeClaim(messageId, offset)]))[0];
    const start = (mode: string, firstOffset: number) => {
      const child = new Child(CLAIMER, [harness.module, store.settings, mode, String(firstOffset)]);
      children.push(child);
      return child;
    };

    it('accepts a message id once within the window, and the same position again', async () => {
      expect(await claim('a', 1)).toBe(true);
      expect(await claim('a', 2)).toBe(false);
      expect(await claim('a', 1)).toBe(true);
      expect(await claim('a', 2)).toBe(false);
    });

    it('did not release the message id of a rejected event: a later position is accepted, and each answer is final', async () => {
      const rejected = (offset: number) => dedupeClaim('a', offset, { rejected: true });
      expect(await deduplicator.claim([rejected(1), rejected(2)])).toEqual([true, false]);
      const topics = ['events.production'];
      expect((await deduplicator.winner(dedupeClaim('a', 0), topics))?.offset).toBe(1);
      expect(await deduplicator.claim([dedupeClaim('a', 3), rejected(4), dedupeClaim('a', 5)])).toEqual([
        true,
        false,
        false,
      ]);
      expect((await deduplicator.winner(dedupeClaim('a', 0), topics))?.offset).toBe(3);
      const other = await store.open();
      const all = [
        rejected(1),
        rejected(2),
        dedupeClaim('a', 3),
        rejected(4),
        dedupeClaim('a', 5),
        dedupeClaim('b', 6),
      ];
      expect(await other.claim(all)).toEqual([true, false, true, false, false, true]);
      await store.elapse(WINDOW_MS * 0.6);
      expect(await other.claim(all)).toEqual([true, false, true, false, false, true]);
      await other.close();
    });

    it('does not accept a rejected event after an accepted one, not even with dedupe claims of another window', async () => {
      const rejected = (id: string, offset: number) => dedupeClaim(id, offset, { rejected: true });
      expect(await deduplicator.claim([dedupeClaim('a', 1), rejected('b', 2)])).toEqual([true, true]);
      await store.elapse(WINDOW_MS * 0.6);
      expect(
        await deduplicator.claim([rejected('a', 3), rejected('b', 4), dedupeClaim('b', 5), rejected('b', 2)]),
      ).toEqual([false, false, true, true]);
    });

    it('stored an id for every accepted event: it stores one only after a rejected event with that id, on request', async () => {
      const behind = (id: string, offset: number) => dedupeClaim(id, offset, { afterRejected: true });
      expect(
        await deduplicator.claim([dedupeClaim('r', 1, { rejected: true }), dedupeClaim('w', 2)]),
      ).toEqual([true, true]);
      await store.elapse(WINDOW_MS * 0.6);
      const asked = [behind('r', 3), behind('w', 4), behind('n', 5), behind('r', 6)];
      expect(await deduplicator.claim(asked)).toEqual([true, false, false, false]);
      expect(await deduplicator.claim([dedupeClaim('r', 7), dedupeClaim('n', 8), behind('r', 3)])).toEqual([
        false,
        true,
        true,
      ]);
    });

    it('answers a call without dedupe claims', async () => {
      expect(await deduplicator.claim([])).toEqual([]);
    });

    it('returns the accepted position of a message, and none if it does not exist or is in another topic', async () => {
      const position = { topic: 'events.with/slash', partition: 13, offset: 123_456_789, index: 41 };
      const [first, second] = [dedupeClaim('a', 1, { position }), dedupeClaim('a', 2)];
      expect(await deduplicator.claim([first, second])).toEqual([true, false]);
      const other = await store.open();
      const topics = ['events.production', position.topic];
      expect(await other.winner(first, topics)).toEqual(position);
      expect(await other.winner(dedupeClaim('b', 1), topics)).toBeUndefined();
      expect(await other.winner(dedupeClaim('a', 1, { environment: 'development' }), topics)).toBeUndefined();
      expect(await other.winner(dedupeClaim('a', 1, { workspaceId: 'another' }), topics)).toBeUndefined();
      expect((await other.winner(first, ['events.production']))?.topic).not.toBe('events.production');
      await other.close();
    });

    it('distinguishes positions by each of their parts', async () => {
      const { position } = dedupeClaim('a', 1);
      expect(await claim('a', 1)).toBe(true);
      for (const part of [{ topic: 'events.development' }, { partition: 1 }, { offset: 2 }, { index: 1 }]) {
        const other = dedupeClaim('a', 1, { position: { ...position, ...part } });
        expect(await deduplicator.claim([other])).toEqual([false]);
      }
    });

    it('separates workspaces and environments', async () => {
      expect(await claim('a', 1)).toBe(true);
      const workspaceId = '0192f0c1-7c7b-7d53-8a55-1d0c5f1e2a02';
      expect(await deduplicator.claim([dedupeClaim('a', 2, { workspaceId })])).toEqual([true]);
      expect(await deduplicator.claim([dedupeClaim('a', 3, { environment: 'development' })])).toEqual([true]);
    });

    it('accepts ids of any characters unchanged', async () => {
      const ids = [
        ...'a A a\0 a\0b é e\u0301 🚀'.split(' '),
        ...['', ' ', 'a '],
        'x'.repeat(100),
        '{}',
        '1',
        '01',
        ':',
        '*',
      ];
      const answers = await deduplicator.claim(ids.map((id, offset) => dedupeClaim(id, offset)));
      expect(answers).toEqual(ids.map(() => true));
      const others = await deduplicator.claim(ids.map((id, offset) => dedupeClaim(id, offset + 100)));
      expect(others).toEqual(ids.map(() => false));
    });

    it('accepts a batch of the maximum size of a stage', async () => {
      const claims = Array.from({ length: 2_500 }, (_, offset) => dedupeClaim(`m-${offset}`, offset));
      expect((await deduplicator.claim(claims)).every(Boolean)).toBe(true);
      expect((await deduplicator.claim(claims)).every(Boolean)).toBe(true);
    });

    it('keeps the accepted positions through closing and opening', async () => {
      await claim('a', 1);
      await deduplicator.close();
      deduplicator = await store.open();
      expect(await claim('a', 2)).toBe(false);
      expect(await claim('a', 1)).toBe(true);
    });

    it('closes twice', async () => {
      await deduplicator.close();
      await deduplicator.close();
    });

    it('keeps an accepted position for a whole window, with other dedupe claims at any time in it', async () => {
      const ids: string[] = [];
      for (let step = 0; step < 4; step++) {
        ids.push(`a-${step}`);
        expect(await claim(`a-${step}`, step)).toBe(true);
        await store.elapse(WINDOW_MS / 5);
        for (const [winner, id] of ids.entries()) {
          expect(await claim(id, 100 + step)).toBe(false);
          expect(await claim(id, winner)).toBe(true);
        }
      }
    });

    it('forgets an accepted position after one and a half windows, and then accepts another', async () => {
      expect(await claim('a', 1)).toBe(true);
      await store.elapse(WINDOW_MS * 1.5);
      expect(await claim('a', 2)).toBe(true);
      expect(await claim('a', 1)).toBe(false);
    });

    it('answers like a map of first positions', async () => {
      const step = fc.array(fc.tuple(fc.nat({ max: 8 }), fc.nat({ max: 4 })), {
        minLength: 1,
        maxLength: 12,
      });
      let run = 0;
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 8 }), async (calls) => {
          const winners = new Map<string, number>();
          run++;
          for (const call of calls) {
            const claims = call.map(([id, offset]) => dedupeClaim(`${run}-${id}`, offset));
            const expected = claims.map(({ messageId, position }) => {
              if (!winners.has(messageId)) winners.set(messageId, position.offset);
              return winners.get(messageId) === position.offset;
            });
            expect(await deduplicator.claim(claims)).toEqual(expected);
          }
        }),
        { numRuns: 30 },
      );
    });

    it('accepts each id from one of several processes, and from the same one again', async () => {
      const racers = [0, 1, 2].map((n) => start('race', n * 100_000 + n * 7));
      await Promise.all(racers.map((racer) => racer.wrote(1)));
      for (const racer of racers) racer.go();
      const told = await Promise.all(racers.map((racer) => racer.finished()));
      const won = (round: number) =>
        told.map((lines) => (lines as readonly { round: number; won: string[] }[])[round]?.won ?? []);
      expect(won(1).flat()).toHaveLength(RACE_IDS);
      expect(new Set(won(1).flat()).size).toBe(RACE_IDS);
      expect(won(2)).toEqual(won(1));
    });

    it(
      'keeps every accepted position that it answered to a killed process',
      async () => {
        for (let kill = 0; kill < KILLS; kill++) {
          const first = kill * 1_000_000;
          const child = start('stream', first);
          await child.wrote(1 + kill * 3);
          await child.kill();
          const answered = (child.lines as readonly number[]).flatMap((offset) =>
            Array.from({ length: STREAM_BATCH }, (_, i) => offset + i),
          );
          const claims = (by: number) =>
            answered.map((offset) => dedupeClaim(`stream-${offset}`, offset + by));
          expect((await deduplicator.claim(claims(500_000))).some(Boolean)).toBe(false);
          expect((await deduplicator.claim(claims(0))).every(Boolean)).toBe(true);
        }
      },
      KILLS_WITHIN_MS,
    );
  });
}
