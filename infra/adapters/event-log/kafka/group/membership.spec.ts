import { Unavailable } from '@tributary/core';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { GroupMember, PositionToStore } from '../client/protocol.ts';
import { assign, type Member, StoredPositions } from './membership.ts';

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

const ILLEGAL_GENERATION = 22;

/** A client without brokers: each request waits until the test answers it. */
class Answering {
  readonly requests: {
    readonly member: GroupMember;
    readonly partitions: readonly number[];
    answer(codes: ReadonlyMap<string, number>): void;
  }[] = [];

  invalidateMetadata(): void {}

  commitOffsets(member: GroupMember, positions: readonly PositionToStore[]) {
    const partitions = positions.map(({ partition }) => partition);
    return new Promise<ReadonlyMap<string, number>>((answer) =>
      this.requests.push({ member, partitions, answer }),
    );
  }

  /** Answers the oldest pending request, with a code for each partition. */
  answerNext(codeOf: (partition: number) => number = () => 0): void {
    const next = this.requests.shift();
    next?.answer(new Map(next.partitions.map((partition) => [`t/${partition}`, codeOf(partition)])));
  }
}

const turn = () => new Promise((resolve) => setTimeout(resolve, 2));
const position = (partition: number, offset: number) => ({ topic: 't', partition, offset, metadata: '' });
const present = { groupId: 'g', memberId: 'a', generationId: 1 };

describe('positions stored outside of a transaction', () => {
  it('a position that waited over a change of the group is stored in the name of the member it was then', async () => {
    const client = new Answering();
    const positions = new StoredPositions(client);
    const first = positions.store(position(0, 1), present);
    await turn();
    const old = positions.store(position(1, 1), present);
    const now = positions.store(position(2, 1), { ...present, generationId: 2 });
    client.answerNext();
    await first;
    await turn();
    expect(client.requests[0]?.member.generationId).toBe(1);
    expect(client.requests[0]?.partitions).toEqual([1]);
    client.answerNext(() => ILLEGAL_GENERATION);
    await turn();
    expect(client.requests[0]?.member.generationId).toBe(2);
    client.answerNext();
    await expect(old).rejects.toThrow(Unavailable);
    await now;
  });
});
