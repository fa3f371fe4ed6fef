import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BodyRoom, type HeldRoom } from './body-room.ts';

describe('room for bodies', () => {
  it('is taken until there is none, and there again once it was given back', () => {
    const room = new BodyRoom(100);
    const first = room.take(60);
    expect(room.take(41)).toBeUndefined();
    const second = room.take(40);
    expect(second).toBeDefined();
    expect(room.take(1)).toBeUndefined();
    first?.release();
    first?.release();
    expect(room.take(61)).toBeUndefined();
    expect(room.take(60)).toBeDefined();
  });

  it('is held for as much as a body turns out to be, where that much is left', () => {
    const room = new BodyRoom(100);
    const held = room.take(10);
    expect(held?.resize(101)).toBe(false);
    expect(held?.resize(100)).toBe(true);
    expect(room.take(1)).toBeUndefined();
    expect(held?.resize(30)).toBe(true);
    expect(room.take(70)).toBeDefined();
  });

  it('is not taken any more by who gave it back', () => {
    const room = new BodyRoom(100);
    const held = room.take(10);
    held?.release();
    expect(held?.resize(60)).toBe(true);
    expect(room.take(100)).toBeDefined();
  });

  it('is never more than there is, and all of it in the end, whatever comes and goes', () => {
    const step = fc.record({ at: fc.nat(9), bytes: fc.nat(120), grows: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const room = new BodyRoom(100);
        const held = new Map<number, { room: HeldRoom; bytes: number }>();
        for (const { at, bytes, grows } of steps) {
          const own = held.get(at);
          if (own === undefined) {
            const taken = room.take(bytes);
            if (taken !== undefined) held.set(at, { room: taken, bytes });
          } else if (grows) {
            if (own.room.resize(bytes)) held.set(at, { ...own, bytes });
          } else {
            own.room.release();
            held.delete(at);
          }
          const sum = [...held.values()].reduce((total, each) => total + each.bytes, 0);
          expect(sum).toBeLessThanOrEqual(100);
        }
        for (const { room: own } of held.values()) own.release();
        expect(room.take(100)).toBeDefined();
      }),
    );
  });
});
