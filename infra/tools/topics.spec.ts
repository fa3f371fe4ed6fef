import type { TopicSpec } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { readConfig } from '../runtime/config/config.ts';
import { configuredTopics } from '../runtime/wiring/ports/event-log.ts';
import { parseGrowth, plannedGrowth, textOfTopics } from './topics.ts';

const HOUR_MS = 3_600_000;
const TOPICS: readonly TopicSpec[] = [
  { name: 'events.production', partitions: 12, packed: false, retentionMs: 72 * HOUR_MS },
  { name: 'catalog', partitions: 1, packed: false, retentionMs: 'forever' },
];
const all = { topics: TOPICS, prefix: 'Acme_eu.', replicas: 3, cluster: 'kafka-1' };

describe('the declared topics as text', () => {
  it('is a table for people', () => {
    const [head = '', ...lines] = textOfTopics('table', all).trimEnd().split('\n');
    expect(head.split(/ {2,}/)).toEqual(['topic', 'partitions', 'replicas', 'settings']);
    expect(lines.map((line) => line.split(/ +/).slice(0, 3))).toEqual([
      ['Acme_eu.events.production', '12', '3'],
      ['Acme_eu.catalog', '1', '3'],
    ]);
    expect(lines[0]).toContain(`retention.ms=${72 * HOUR_MS}`);
    expect(lines[1]).toContain('retention.ms=-1');
  });

  it('is one resource a topic for Strimzi, with a valid name for Kubernetes', () => {
    const resources = textOfTopics('strimzi', all).split('---\n');
    expect(resources).toHaveLength(TOPICS.length);
    expect(resources[0]?.split('\n').slice(0, 10)).toEqual([
      'apiVersion: kafka.strimzi.io/v1beta2',
      'kind: KafkaTopic',
      'metadata:',
      '  name: acme-eu.events.production',
      '  labels:',
      '    strimzi.io/cluster: kafka-1',
      'spec:',
      '  topicName: "Acme_eu.events.production"',
      '  partitions: 12',
      '  replicas: 3',
    ]);
    expect(resources[1]).toContain('    retention.ms: "-1"\n');
  });

  it('is one resource a topic for Terraform, with an identifier as its name', () => {
    const text = textOfTopics('terraform', all);
    const names = [...text.matchAll(/^resource "kafka_topic" "([A-Za-z_]\w*)" \{$/gm)].map(
      ([, name]) => name,
    );
    expect(names).toEqual(['events_production', 'catalog']);
    expect(text).toContain('  name               = "Acme_eu.events.production"\n');
    expect(text).toContain('    "retention.ms" = "-1"\n');
    expect([...text].filter((character) => character === '{')).toHaveLength(2 * TOPICS.length);
    expect([...text].filter((character) => character === '}')).toHaveLength(2 * TOPICS.length);
  });

  it.each(['strimzi', 'terraform'] as const)('no two declared topics share a name: %s', (format) => {
    const topics = [...configuredTopics(readConfig({})).values()];
    const text = textOfTopics(format, { ...all, topics });
    const names = [...text.matchAll(/^(?:resource "kafka_topic" "(\w+)"| {2}name: (\S+)$)/gm)];
    expect(names).toHaveLength(topics.length);
    expect(new Set(names.map(([line]) => line)).size).toBe(topics.length);
  });
});

const DECLARED = configuredTopics(readConfig({}));
const plan = (texts: readonly string[]) => plannedGrowth(parseGrowth(texts), DECLARED, 'eu.');

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
