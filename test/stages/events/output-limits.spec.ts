import {
  type BatchStage,
  type DeliveryOutcome,
  HEADER,
  type OutputRecord,
  type SandboxResult,
  TOPIC,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { entryOf, event, handedOn, setUp } from '../harness.ts';

/** Larger than a piece, and smaller than the output of all rules. */
const MOST_OF_A_PIECE = 4 * 1024 * 1024 + 8 * 300 * 1024;

/** `count` rules with transformations that return this many outputs of this many characters. */
function setUpFlood(rules: number, outputs: number, chars: number) {
  const set = setUp();
  set.catalog.addDestination('place');
  set.catalog.addTransformation('tx');
  for (let rule = 0; rule < rules; rule++)
    set.catalog.addRule(`rule${rule}`, 'place', { transformation_id: 'tx' });
  const pad = 'z'.repeat(chars);
  set.world.transform = (_source, { event: text }): SandboxResult => {
    const output = JSON.stringify({ ...JSON.parse(text), properties: { pad } });
    return {
      ok: true,
      outputs: Array.from({ length: outputs }, () => output),
      logs: [],
      durationMs: 1,
      loadMs: 0,
    };
  };
  return set;
}

function bytesOf(outputRecords: readonly OutputRecord[]): number {
  return outputRecords.reduce((bytes, { value }) => bytes + value.length, 0);
}

/** All output of an event, piece by piece, with the bytes of each piece. */
async function pieces({ run }: Pick<ReturnType<typeof setUp>, 'run'>, value: object) {
  const all: OutputRecord[] = [];
  const sizes: number[] = [];
  let made = await run('route', [entryOf(TOPIC.accepted, 0, value)]);
  for (;;) {
    sizes.push(bytesOf(made));
    const left = made.find(({ topic }) => topic === TOPIC.eventsSlow);
    all.push(...made.filter((outputRecord) => outputRecord !== left));
    if (left === undefined) return { all, sizes };
    made = await run('route.slow', [handedOn(left)]);
  }
}

const reasonOf = ({ value }: OutputRecord) => (JSON.parse(value) as DeliveryOutcome).reason;
const rulesOf = (outputRecords: readonly OutputRecord[]) =>
  new Set(outputRecords.map(({ value }) => JSON.parse(value).rule_id ?? JSON.parse(value).delivery.rule_id));

describe('one event over all rules of its workspace', () => {
  it('had all its output in memory at once: the output comes in pieces, each rule once, and the same on a replay', async () => {
    // 45 rules, 7 outputs of 30 KB each: 9.5 MB, all within its shares. The stage pauses by the bytes that it makes.
    const set = setUpFlood(45, 7, 30_000);
    const { all, sizes } = await pieces(set, event('m'));
    expect(all).toHaveLength(45 * 7);
    expect(all.every(({ topic }) => topic === TOPIC.deliveries)).toBe(true);
    expect(rulesOf(all).size).toBe(45);
    expect(sizes.length).toBeGreaterThan(1);
    for (const size of sizes) expect(size).toBeLessThan(MOST_OF_A_PIECE);
    const again = await pieces(set, event('m'));
    expect(again.all.map(({ value }) => JSON.parse(value).id)).toEqual(
      all.map(({ value }) => JSON.parse(value).id),
    );
  });

  it('had a hundred times its share of output: each of its rules is dead with the reason, without a copy of the event', async () => {
    const set = setUpFlood(150, 100, 30_000);
    const { all } = await pieces(set, event('m', { properties: { large: 'x'.repeat(30_000) } }));
    expect(all).toHaveLength(150);
    expect(all.every(({ topic }) => topic === TOPIC.deliveriesDead)).toBe(true);
    for (const outputRecord of all)
      expect(reasonOf(outputRecord)).toContain('each of its 150 rules may make 66');
    expect(bytesOf(all)).toBeLessThan(150 * 1_000);
  });

  it('can have the full output of a transformation with one rule, or in a redrive of one', async () => {
    const { all } = await pieces(setUpFlood(1, 100, 30_000), event('m'));
    expect(all).toHaveLength(100);
    const set = setUpFlood(150, 100, 30_000);
    const redriven = entryOf(TOPIC.eventsSlow, 0, event('m'), {
      [HEADER.rules]: 'rule7',
      [HEADER.redrives]: '1',
    });
    expect(await set.run('route.slow', [redriven])).toHaveLength(100);
  });

  it('exceeds its share without counting as a failure of the transformation', async () => {
    const set = setUpFlood(150, 100, 30_000);
    for (let n = 0; n < 3; n++) await pieces(set, event(`m${n}`));
    expect(set.catalog.state.transformation('tx')?.status).toBe('active');
  });
});

describe('a batch of events with many violations', () => {
  it('became ten times its size: the batch ends at the limit of one commit', async () => {
    const { stages, catalog, world } = setUp();
    catalog.addContract();
    const message = 'm'.repeat(480);
    world.evaluate = () => ({
      outcome: 'rejected',
      violations: Array.from({ length: 100 }, (_, n) => ({
        kind: 'required' as const,
        path: `/${n}`,
        message,
        action: 'blocked' as const,
      })),
    });
    const validate = stages.find((stage): stage is BatchStage => stage.name === 'validate');
    const entries = Array.from({ length: 1_200 }, (_, n) =>
      entryOf('events.production', n, event(`m${n}`), { [HEADER.catalogPosition]: String(catalog.position) }),
    );
    let done = 0;
    let batches = 0;
    while (done < entries.length) {
      const batch = { topic: 'events.production', partition: 0, entries: entries.slice(done) };
      let taken = batch.entries.length;
      const outputRecords = await validate?.process(batch, {
        signal: new AbortController().signal,
        endBatch: (first) => {
          taken = first;
        },
      });
      expect(bytesOf(outputRecords ?? [])).toBeLessThan(5 * 1024 * 1024);
      expect(outputRecords?.filter(({ topic }) => topic === TOPIC.rejected)).toHaveLength(taken);
      done += taken;
      batches += 1;
    }
    expect(batches).toBeGreaterThan(3);
  });
});
