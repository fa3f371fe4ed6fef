import type { TopicSpec } from '@tributary/core';
import { settingsOf } from '../../adapters/event-log/kafka/index.ts';

export type TopicFormat = 'table' | 'strimzi' | 'terraform';

export interface TopicsToPrint {
  readonly topics: readonly TopicSpec[];
  /** Before the names in Kafka. */
  readonly prefix: string;
  readonly replicas: number;
  /** The name of the Kafka resource that Strimzi's topics belong to. */
  readonly cluster: string;
}

/** The declared topics as text, for people or for tools that make topics. */
export function textOfTopics(format: TopicFormat, all: TopicsToPrint): string {
  switch (format) {
    case 'table':
      return table(all);
    case 'strimzi':
      return `${all.topics.map((spec) => strimzi(spec, all)).join('---\n')}`;
    case 'terraform':
      return `${all.topics.map((spec) => terraform(spec, all)).join('\n')}`;
  }
}

function table({ topics, prefix, replicas }: TopicsToPrint): string {
  const rows = topics.map((spec) => [
    `${prefix}${spec.name}`,
    String(spec.partitions),
    String(replicas),
    Object.entries(settingsOf(spec, replicas))
      .map(([name, value]) => `${name}=${value}`)
      .join(' '),
  ]);
  const all = [['topic', 'partitions', 'replicas', 'settings'], ...rows];
  const widths = [0, 1, 2].map((column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  const lines = all.map((row) => row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join('  '));
  return `${lines.join('\n')}\n`;
}

function strimzi(spec: TopicSpec, { prefix, replicas, cluster }: TopicsToPrint): string {
  const topic = `${prefix}${spec.name}`;
  const settings = Object.entries(settingsOf(spec, replicas)).map(
    ([name, value]) => `    ${name}: ${JSON.stringify(value)}`,
  );
  return [
    'apiVersion: kafka.strimzi.io/v1beta2',
    'kind: KafkaTopic',
    'metadata:',
    `  name: ${resourceName(topic)}`,
    '  labels:',
    `    strimzi.io/cluster: ${cluster}`,
    'spec:',
    `  topicName: ${JSON.stringify(topic)}`,
    `  partitions: ${spec.partitions}`,
    `  replicas: ${replicas}`,
    '  config:',
    ...settings,
    '',
  ].join('\n');
}

/** Names of Kubernetes are small letters, digits, dots and hyphens; the topic's own stands in `topicName`. */
function resourceName(topic: string): string {
  return topic
    .toLowerCase()
    .replace(/[^a-z0-9.-]/g, '-')
    .replace(/^[.-]+|[.-]+$/g, '');
}

/** For the provider Mongey/kafka. */
function terraform(spec: TopicSpec, { prefix, replicas }: TopicsToPrint): string {
  const topic = `${prefix}${spec.name}`;
  const settings = Object.entries(settingsOf(spec, replicas)).map(
    ([name, value]) => `    ${JSON.stringify(name)} = ${JSON.stringify(value)}`,
  );
  return [
    `resource "kafka_topic" "${spec.name.replace(/[^A-Za-z0-9_]/g, '_')}" {`,
    `  name               = ${JSON.stringify(topic)}`,
    `  partitions         = ${spec.partitions}`,
    `  replication_factor = ${replicas}`,
    '  config = {',
    ...settings,
    '  }',
    '}',
    '',
  ].join('\n');
}
