import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Crowd, type LaneOptions, type LaneTicket, LaneWindow } from './lanes.ts';

function lanes(options: Partial<LaneOptions> = {}): LaneWindow {
  return new LaneWindow({ windowBytes: 8_000, ...options });
}

describe('the lanes of a window', () => {
  it('lets a key wait that would fill more than its share', () => {
    const window = lanes();
    window.begin('a', 600, 0);
    expect(window.decide('a', 400, 0)).toBe('fast');
    expect(window.decide('a', 401, 0)).toBe('wait');
  });

  it('leaves the other keys alone', () => {
    const window = lanes();
    window.begin('a', 1_000, 0);
    expect(window.decide('b', 1_000, 0)).toBe('fast');
  });

  it('sends a key aside while its oldest work is old', () => {
    const window = lanes();
    const oldest = window.begin('a', 10, 0);
    window.begin('a', 10, 400);
    expect(window.decide('a', 10, 500)).toBe('fast');
    expect(window.decide('a', 10, 501)).toBe('slow');
    window.end(oldest, 500);
    expect(window.decide('a', 10, 501)).toBe('fast');
  });

  it('takes for the oldest what is left of it, in whatever order work ended', () => {
    const window = lanes();
    const [first, second, third] = [0, 100, 200, 300].map((at) => window.begin('a', 10, at));
    if (!first || !second || !third) throw new Error('no tickets');
    window.end(second, 300);
    expect(window.decide('a', 10, 501)).toBe('slow');
    window.end(first, 400);
    expect(window.decide('a', 10, 700)).toBe('fast');
    expect(window.decide('a', 10, 701)).toBe('slow');
    window.end(third, 600);
    expect(window.decide('a', 10, 800)).toBe('fast');
    expect(window.decide('a', 10, 801)).toBe('slow');
  });

  it('keeps a key aside for a while after work of it took long, and then tries again', () => {
    const window = lanes({ slowForMs: 1_000 });
    window.end(window.begin('a', 10, 0), 501);
    expect(window.decide('a', 10, 1_500)).toBe('slow');
    expect(window.decide('b', 10, 1_500)).toBe('fast');
    expect(window.decide('a', 10, 1_501)).toBe('fast');
  });

  it('keeps a key aside for twice as long each time it is slow at once again, up to a bound', () => {
    const window = lanes({ slowForMs: 1_000, slowForAtMostMs: 3_000 });
    let now = 0;
    for (const forMs of [1_000, 2_000, 3_000, 3_000]) {
      window.end(window.begin('a', 10, now), now + 501);
      now += 501 + forMs;
      expect(window.decide('a', 10, now - 1)).toBe('slow');
      expect(window.decide('a', 10, now)).toBe('fast');
    }
    // Quick for as long as it was aside: it begins at the beginning.
    now += 3_000;
    window.end(window.begin('a', 10, now), now + 501);
    expect(window.decide('a', 10, now + 1_501)).toBe('fast');
  });

  it('takes pieces that were slow together for one time', () => {
    const window = lanes({ slowForMs: 1_000 });
    const pieces = Array.from({ length: 10 }, () => window.begin('a', 10, 0));
    pieces.forEach((piece, at) => {
      window.end(piece, 501 + at);
    });
    expect(window.decide('a', 10, 1_501)).toBe('fast');
  });

  it('takes one piece of any size when nothing of its key is under way', () => {
    const window = lanes();
    expect(window.decide('a', 5_000, 0)).toBe('fast');
    window.end(window.begin('a', 5_000, 0), 0);
    expect(window.decide('a', 5_000, 0)).toBe('fast');
  });

  it('ends a piece of work once', () => {
    const window = lanes();
    const first = window.begin('a', 500, 0);
    window.begin('a', 900, 0);
    window.end(first, 0);
    window.end(first, 0);
    expect(window.decide('a', 100, 0)).toBe('fast');
    expect(window.decide('a', 101, 0)).toBe('wait');
  });

  it('forgets the keys that are slow no more, also those that never come back', () => {
    const window = lanes({ slowForMs: 1_000 });
    for (let key = 0; key < 100; key++) window.end(window.begin(`${key}`, 10, 0), 501);
    expect(window.remembered).toBe(100);
    window.end(window.begin('late', 10, 2_001), 2_502);
    expect(window.remembered).toBe(1);
  });

  describe('with a crowd', () => {
    const crowd = ({ waitMs = 0, overloaded = false } = {}): Crowd => ({
      waitMs: () => waitMs,
      overloaded: () => overloaded,
    });

    it('lets a key wait that work would wait for, unless nothing of it would wake it', () => {
      expect(lanes().decide('a', 10, 0, crowd({ waitMs: 9_000 }))).toBe('fast');
      const window = lanes();
      window.begin('a', 10, 0);
      expect(window.decide('a', 10, 0, crowd({ waitMs: 250 }))).toBe('fast');
      expect(window.decide('a', 10, 0, crowd({ waitMs: 251 }))).toBe('wait');
    });

    it('calls no key slow for what the process itself holds up, unless it takes several times as long', () => {
      const window = lanes();
      const overloaded = crowd({ overloaded: true });
      const work = window.begin('a', 10, 0);
      expect(window.decide('a', 10, 2_000, overloaded)).toBe('fast');
      expect(window.decide('a', 10, 2_001, overloaded)).toBe('slow');
      window.end(work, 2_000, overloaded);
      expect(window.decide('a', 10, 2_001, overloaded)).toBe('fast');
    });

    it('sends a key aside that takes up the room of others, and not one that is alone', () => {
      const window = lanes({ share: 1 / 20 });
      const work = window.begin('a', 10, 0);
      expect(window.decide('a', 10, 0, crowd(), 7_900)).toBe('fast');
      for (let key = 0; key < 11; key++) window.decide(`b${key}`, 10, 0);
      expect(window.decide('a', 10, 0, crowd(), 1_900)).toBe('fast');
      expect(window.decide('a', 10, 0, crowd({ overloaded: true }), 2_000)).toBe('slow');
      // Nobody else came for a while.
      window.end(work, 0);
      window.begin('a', 10, 20_000);
      expect(window.decide('a', 10, 20_000, crowd({ overloaded: true }), 2_000)).toBe('fast');
    });
  });

  it('has room again when everything has ended, whatever the order', () => {
    const work = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.nat(500), fc.nat()));
    fc.assert(
      fc.property(work, (pieces) => {
        const window = lanes();
        const tickets: [LaneTicket, number][] = pieces.map(([key, bytes, order], at) => [
          window.begin(key, bytes, at),
          order,
        ]);
        for (const [ticket] of tickets.sort((left, right) => left[1] - right[1])) window.end(ticket, 500);
        for (const key of ['a', 'b', 'c']) expect(window.decide(key, 8_000, 1e6)).toBe('fast');
      }),
    );
  });
});
