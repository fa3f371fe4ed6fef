import { describe, expect, it } from 'vitest';
import { replicaFault, settingFaults } from './topics.ts';

const SPEC = { name: 't', partitions: 1, packed: false, retentionMs: 1_000 };

describe('the replicas of a topic that others made', () => {
  const inSync = (count: number) => new Map([['min.insync.replicas', String(count)]]);

  it.each([
    ['three, two of them in sync', 3, 3, 2, undefined],
    ['one on a single broker', 1, 1, 1, undefined],
    ['two on two brokers', 2, 2, 1, undefined],
    ['one on three brokers', 1, 3, 1, /^1 replicas instead of 3: the loss of a broker/],
    ['two on three brokers', 2, 3, 1, /^2 replicas instead of 3/],
    ['three, all of them in sync', 3, 3, 3, /^min.insync.replicas 3 of 3 replicas: appends stop/],
    ['three, more than all in sync', 3, 5, 4, /^min.insync.replicas 4 of 3 replicas/],
  ])('%s', (_, replicas, brokers, minInSync, expected) => {
    const fault = replicaFault(replicas, brokers, inSync(minInSync));
    if (expected === undefined) expect(fault).toBeUndefined();
    else expect(fault).toMatch(expected);
  });
});

it('a compression of the topic itself is a fault, as brokers would compress each batch again', () => {
  const faults = settingFaults(SPEC, 1, new Map([['compression.type', 'gzip']]));
  expect(faults).toEqual([
    { setting: 'compression.type', is: 'gzip', should: 'producer', losesForever: false },
  ]);
});
