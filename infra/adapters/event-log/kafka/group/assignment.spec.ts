import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { assign, type Member } from './assignment.ts';

const member = (id: string, owned: readonly string[] = []): Member => ({ id, owned });

/** Rejoins, as members do after a revocation, until no partition moves. */
function settle(topics: ReadonlyMap<string, number>, members: readonly Member[]): readonly Member[] {
  let now = members;
  for (let round = 0; round < 4; round++) {
    const parts = assign(topics, now);
    now = now.map(({ id }) => ({ id, owned: parts.get(id) ?? [] }));
  }
  return now;
}

const countsOf = (members: readonly Member[]) => members.map(({ owned }) => owned.length).sort();

describe('assignment of partitions', () => {
  it('gives one member everything', () => {
    const parts = assign(new Map([['a', 2]]), [member('x')]);
    expect(parts.get('x')).toEqual(['a/0', 'a/1']);
  });

  it('gives each as many of every topic, so that a busy topic is shared', () => {
    const topics = new Map([
      ['busy', 4],
      ['idle', 4],
    ]);
    for (const part of assign(topics, [member('x'), member('y')]).values()) {
      expect(part.filter((name) => name.startsWith('busy/'))).toHaveLength(2);
      expect(part).toHaveLength(4);
    }
  });

  it('moves only partitions that a new member needs, and not before their owner released them', () => {
    const topics = new Map([['a', 4]]);
    const x = member('x', ['a/0', 'a/1', 'a/2', 'a/3']);
    const first = assign(topics, [x, member('y')]);
    expect(first.get('x')).toEqual(['a/0', 'a/1']);
    expect(first.get('y')).toEqual([]);
    const second = assign(topics, [member('x', ['a/0', 'a/1']), member('y')]);
    expect(second.get('x')).toEqual(['a/0', 'a/1']);
    expect(second.get('y')).toEqual(['a/2', 'a/3']);
  });

  it('believes neither of two members that claim the same partition', () => {
    const parts = assign(new Map([['a', 2]]), [member('x', ['a/0']), member('y', ['a/0'])]);
    expect([...parts.values()].flat().sort()).toEqual(['a/0', 'a/1']);
  });

  it('gives every partition to one member, evenly, also when members come and go', () => {
    const ids = fc.uniqueArray(fc.constantFrom('a', 'b', 'c', 'd', 'e'), { minLength: 1 });
    const topicsOf = fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(topicsOf, fc.array(ids, { minLength: 1, maxLength: 4 }), (counts, comings) => {
        const topics = new Map(counts.map((count, i) => [`t${i}`, count]));
        const all = [...topics].flatMap(([topic, n]) => Array.from({ length: n }, (_, i) => `${topic}/${i}`));
        let members: readonly Member[] = [];
        for (const present of comings) {
          const before = members;
          const joined = present.map((id) => before.find((one) => one.id === id) ?? member(id));
          for (const [id, part] of assign(topics, joined)) {
            const others = joined.filter((one) => one.id !== id).flatMap(({ owned }) => owned);
            expect(part.filter((name) => others.includes(name))).toEqual([]);
          }
          members = settle(topics, joined);
          expect(members.flatMap(({ owned }) => owned).sort()).toEqual([...all].sort());
          const sizes = countsOf(members);
          expect((sizes.at(-1) ?? 0) - (sizes[0] ?? 0)).toBeLessThanOrEqual(topics.size);
        }
      }),
    );
  });
});
