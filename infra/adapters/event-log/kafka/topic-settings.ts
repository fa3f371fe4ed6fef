import type { TopicSpec } from '@tributary/core';

/** A record is at most a value of 1 MiB and its headers, or in `stages.dead` both once more, as JSON inside of JSON. */
const MAX_BATCH_BYTES = 4 * 1024 * 1024;

/** A topic that is kept forever begins a segment a day, ms: few enough for years. */
const FOREVER_SEGMENT_MS = 86_400_000;

/** Only closed segments are compacted, bytes. */
const COMPACTED_SEGMENT_BYTES = 16 * 1024 * 1024;

/** Replicas that survive the loss of one broker while another is being restarted. */
export const SAFE_REPLICATION = 3;

/** By name, as brokers write them. */
export type TopicSettings = Readonly<Record<string, string>>;

/** The settings that a topic is made with. */
export function settingsOf(spec: TopicSpec, replicas: number): TopicSettings {
  return {
    'cleanup.policy': spec.compacted === true ? 'compact' : 'delete',
    // The broker's clock is one for all, and a writer's wrong one is not refused.
    'message.timestamp.type': 'LogAppendTime',
    'retention.ms': spec.retentionMs === 'forever' ? '-1' : String(spec.retentionMs),
    'retention.bytes': '-1',
    // What a rewrite drops stays on disk until its segment is closed.
    ...(spec.retentionMs === 'forever' ? { 'segment.ms': String(FOREVER_SEGMENT_MS) } : {}),
    // A start may read all of it: what is not compacted yet is kept small.
    ...(spec.compacted === true
      ? { 'segment.bytes': String(COMPACTED_SEGMENT_BYTES), 'min.cleanable.dirty.ratio': '0.1' }
      : {}),
    'max.message.bytes': String(MAX_BATCH_BYTES),
    // Whatever the cluster's is: a broker takes all batches apart to compress them, and readers again.
    'compression.type': 'producer',
    'unclean.leader.election.enable': 'false',
    ...(replicas >= SAFE_REPLICATION ? { 'min.insync.replicas': '2' } : {}),
  };
}

/** A setting of a topic that breaks what the log promises. */
export interface SettingFault {
  readonly setting: string;
  readonly is: string;
  readonly should: string;
  /** The topic is kept forever, and by this setting it is not. */
  readonly losesForever: boolean;
}

type Rule = (is: string, should: string) => boolean;

const differs: Rule = (is, should) => is !== should;
const isBelow: Rule = (is, should) => Number(is) < Number(should);

/** What is held against what a topic is made with, and when it is a fault; the others are the operator's to choose. */
const RULES: Readonly<Record<string, Rule>> = {
  'cleanup.policy': differs,
  'retention.ms': differs,
  'retention.bytes': differs,
  'max.message.bytes': isBelow,
  'message.timestamp.type': differs,
  'unclean.leader.election.enable': differs,
  'min.insync.replicas': isBelow,
};

/** By these a topic loses records. */
const LOSING = new Set(['cleanup.policy', 'retention.ms', 'retention.bytes']);

/** What is wrong with the settings of a topic; one that the broker did not name is not judged. */
export function settingFaults(
  spec: TopicSpec,
  replicas: number,
  actual: ReadonlyMap<string, string>,
): readonly SettingFault[] {
  const isKeptForever = spec.retentionMs === 'forever' && spec.compacted !== true;
  // Time and size mean nothing to a topic that is only compacted.
  const isCompacted = spec.compacted === true && actual.get('cleanup.policy') === 'compact';
  return Object.entries(settingsOf(spec, replicas)).flatMap(([setting, should]) => {
    const is = actual.get(setting);
    if (is === undefined || RULES[setting]?.(is, should) !== true) return [];
    if (isCompacted && LOSING.has(setting)) return [];
    return [{ setting, is, should, losesForever: isKeptForever && LOSING.has(setting) }];
  });
}
