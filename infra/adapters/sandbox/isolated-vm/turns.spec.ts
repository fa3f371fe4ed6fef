import { describe, expect, it } from 'vitest';
import { Turns } from './turns.ts';

function work(id: string, name: string, left: number, owner = `owner of ${id}`) {
  return { program: { id, owner }, name, left };
}

type Errands = ReturnType<typeof work>;

function takeAll(turns: Turns<Errands>): string {
  const taken: string[] = [];
  const next = (one: Errands) => (one.left-- > 0 ? one.name : undefined);
  for (let turn = turns.take(next); turn !== undefined; turn = turns.take(next)) taken.push(turn.wanted);
  return taken.join('');
}

describe('Turns', () => {
  it('alternate between programs and keep the order within one', () => {
    const turns = new Turns<Errands>();
    turns.add(work('p', 'a', 3));
    turns.add(work('p', 'b', 2));
    turns.add(work('q', 'c', 2));
    expect(takeAll(turns)).toBe('acacabb');
  });

  it('alternate between owners, however many programs one has', () => {
    const turns = new Turns<Errands>();
    for (const id of ['p', 'q', 'r']) turns.add(work(id, id, 2, 'many'));
    turns.add(work('s', 'x', 3, 'one'));
    expect(takeAll(turns)).toBe('pxqxrxpqr');
  });

  it('let an owner leave', () => {
    const turns = new Turns<Errands>();
    turns.add(work('p', 'a', 1));
    turns.add(work('q', 'b', 1));
    expect(turns.drain((owner) => owner === 'owner of p').map(({ name }) => name)).toEqual(['a']);
    expect(takeAll(turns)).toBe('b');
  });

  it('take a work back that has more to do, once and first of its program', () => {
    const turns = new Turns<Errands>();
    const first = work('p', 'a', 1);
    turns.add(work('p', 'b', 1));
    turns.resume(first);
    turns.resume(first);
    expect(takeAll(turns)).toBe('ab');
  });

  it('hand everyone out at the end', () => {
    const turns = new Turns<Errands>();
    turns.add(work('p', 'a', 1));
    turns.add(work('q', 'b', 1));
    expect(turns.drain().map(({ name }) => name)).toEqual(['a', 'b']);
    expect(takeAll(turns)).toBe('');
  });
});
