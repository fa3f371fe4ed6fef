import { describe, expect, it } from 'vitest';
import { Rest } from './rest.ts';

describe('the rest between commits of a partition', () => {
  it('is some times what a commit takes', () => {
    expect(new Rest().after(5)).toBe(20);
  });

  it('does not follow a single commit that took long', () => {
    const rest = new Rest();
    rest.after(5);
    expect(rest.after(10)).toBe(24);
  });

  it('has a bound, so that a slow broker adds no more than that to an event', () => {
    const rest = new Rest();
    expect(rest.after(1_000)).toBe(60);
  });
});
