import { describe, expect, it } from 'vitest';
import { readConfig } from '../config/config.ts';
import { configuredTopics } from '../wiring/ports/event-log.ts';
import { parseGrowth, plannedGrowth } from './grow-topics.ts';

const TOPICS = configuredTopics(readConfig({}));
const plan = (texts: readonly string[]) => plannedGrowth(parseGrowth(texts), TOPICS, 'eu.');

describe('the topics that `tributary topics --partitions` grows', () => {
  it('are the topics that it names, with or without the prefix', () => {
    expect(plan(['events.accepted=24,eu.deliveries=8', 'violations=4'])).toEqual([
      { topic: 'events.accepted', from: 4, to: 24 },
      { topic: 'deliveries', from: 4, to: 8 },
    ]);
  });

  it('are all topics whose keys have an order, for a number alone', () => {
    const all = plan(['12']).map(({ topic }) => topic);
    expect(all).toContain('events.production');
    expect(all).toContain('deliveries');
    expect(all).not.toContain('catalog');
    expect(all).not.toContain('deliveries.retry.10s');
    expect(plan(['deliveries.retry.10s=12'])).toHaveLength(1);
  });

  it('is nothing at all where one of them is refused', () => {
    expect(() => plan(['events.accepted=24', 'deliveries=6'])).toThrow(
      'deliveries has 4 partitions: only multiples keep the order of its keys, e.g. 8',
    );
    expect(() => plan(['nothing=8'])).toThrow('no topic "nothing": `tributary topics --print` lists them');
    expect(() => plan(['stages.dead=x'])).toThrow('--partitions takes <topic>=<number>');
  });
});
