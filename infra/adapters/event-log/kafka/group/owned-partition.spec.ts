import { describe, expect, it } from 'vitest';
import { KafkaCommitThrottle } from './owned-partition.ts';

describe('the pause between commits of a partition', () => {
  it('is a multiple of their duration', () => {
    expect(new KafkaCommitThrottle().pauseAfter(5)).toBe(20);
  });

  it('follows a single slow commit by a part', () => {
    const throttle = new KafkaCommitThrottle();
    throttle.pauseAfter(5);
    expect(throttle.pauseAfter(10)).toBe(24);
  });

  it('has a bound, which is the most that a slow broker adds to an event', () => {
    const throttle = new KafkaCommitThrottle();
    expect(throttle.pauseAfter(1_000)).toBe(60);
  });
});
