import type { OutputRecord } from '@tributary/core';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { COMMIT_BYTES, FINISHED_BYTES, FlowWindow, type Slot } from './flow-window.ts';

const LIMITS = { bytes: 1_000, entries: 10 };

function outputRecord(value: string): OutputRecord {
  return { topic: 'deliveries', key: '', value, headers: {} };
}

function after(offset: number) {
  return { offset: offset + 1, index: 0 };
}

describe('flow window', () => {
  it('bounds the bytes of unfinished entries', () => {
    const window = new FlowWindow(LIMITS);
    window.admit(after(0), 600);
    expect(window.hasRoom(400)).toBe(true);
    expect(window.hasRoom(401)).toBe(false);
  });

  it('takes one entry of any size when it is empty', () => {
    const window = new FlowWindow(LIMITS);
    expect(window.hasRoom(5_000)).toBe(true);
    window.admit(after(0), 5_000);
    expect(window.hasRoom(1)).toBe(false);
  });

  it('bounds the number of uncommitted entries', () => {
    const window = new FlowWindow(LIMITS);
    for (let i = 0; i < 10; i++) window.admit(after(i), 1);
    expect(window.hasRoom(1)).toBe(false);
  });

  it('counts finished entries behind a slow one with few bytes', () => {
    const window = new FlowWindow(LIMITS);
    window.admit(after(0), 300);
    window.finish(window.admit(after(1), 700), []);
    expect(window.bytes).toBe(300 + FINISHED_BYTES);
    expect(window.takeFinished()).toBeUndefined();
  });

  it('counts uncommitted emissions until they are committed', () => {
    const window = new FlowWindow(LIMITS);
    window.finish(window.admit(after(0), 10), [outputRecord('x'.repeat(900))]);
    expect(window.hasRoom(100)).toBe(false);
    const prefix = window.takeFinished();
    expect(window.hasRoom(100)).toBe(false);
    if (prefix) window.release(prefix);
    expect(window.hasRoom(1_000)).toBe(true);
    expect(window.bytes).toBe(0);
  });

  it('cuts finished entries into commits of bounded bytes, with a larger entry alone', () => {
    const window = new FlowWindow({ bytes: 1_000, entries: 10 });
    const finish = (n: number, bytes: number) =>
      window.finish(window.admit(after(n), 1), [outputRecord('x'.repeat(bytes))]);
    finish(0, COMMIT_BYTES / 2);
    finish(1, COMMIT_BYTES / 2 - 1_000);
    finish(2, COMMIT_BYTES / 2);
    finish(3, COMMIT_BYTES + 1);
    finish(4, 1);
    const prefixes = Array.from({ length: 5 }, () => window.takeFinished());
    expect(prefixes.map((prefix) => prefix?.slots.length)).toEqual([2, 1, 1, 1, undefined]);
    for (const prefix of prefixes) if (prefix) window.release(prefix);
    expect([window.uncommitted, window.bytes]).toEqual([0, 0]);
  });

  it('does not hold the emissions of committed entries in memory', () => {
    const window = new FlowWindow(LIMITS);
    const slot = window.admit(after(0), 1);
    window.admit(after(1), 1);
    window.finish(slot, [outputRecord('x')]);
    const prefix = window.takeFinished();
    expect(prefix?.outputRecords).toHaveLength(1);
    if (prefix) window.release(prefix);
    expect(slot.outputRecords).toEqual([]);
  });

  it('lets only the oldest entry make more while finished entries fill the window', () => {
    const window = new FlowWindow(LIMITS);
    const [oldest, behind, last] = [0, 1, 2].map((n) => window.admit(after(n), 1));
    if (!oldest || !behind || !last) throw new Error('three were admitted');
    expect([oldest, last].map((slot) => window.mayEmit(slot))).toEqual([true, true]);
    window.finish(behind, [outputRecord('x'.repeat(1_000))]);
    expect([oldest, last].map((slot) => window.mayEmit(slot))).toEqual([true, false]);
    window.finish(oldest, []);
    const prefix = window.takeFinished();
    expect(window.mayEmit(last)).toBe(true);
    if (prefix) window.release(prefix);
  });

  it('gives finished prefixes in the order of the entries, each once, whatever order they finish in', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(), { maxLength: 60 }), fc.nat(), (picks, seed) => {
        const window = new FlowWindow({ bytes: 1_000_000, entries: 1_000 });
        const open: { slot: Slot; n: number }[] = picks.map((_, n) => ({
          slot: window.admit(after(n), 10),
          n,
        }));
        const values: string[] = [];
        let committed = 0;
        for (const pick of picks) {
          const [picked] = open.splice((pick + seed) % open.length, 1);
          if (picked) window.finish(picked.slot, [outputRecord(String(picked.n))]);
          const prefix = window.takeFinished();
          if (!prefix) continue;
          values.push(...prefix.outputRecords.map(({ value }) => value));
          committed += prefix.slots.length;
          expect(prefix.to).toEqual(after(committed - 1));
          window.release(prefix);
        }
        expect(values).toEqual(picks.map((_, n) => String(n)));
        expect([window.uncommitted, window.bytes]).toEqual([0, 0]);
      }),
    );
  });
});
