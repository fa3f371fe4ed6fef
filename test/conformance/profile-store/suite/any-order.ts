import {
  type CanonicalEvent,
  HEADER,
  NO_LOGGER,
  NO_METRICS,
  type ProfileStore,
  recordOf,
  TOPIC,
} from '@tributary/core';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { entryOf, event, setUp } from '../../../stages/harness.ts';
import type { Stage } from './stage.ts';

const PARTITIONS = 3;
const NOW = Date.parse('2026-01-01T10:01:00.000Z');
/** Rounds, each in two installations. Elasticsearch answers each write over the network. */
const ROUNDS: Readonly<Record<string, number>> = {
  SQLite: process.env.TRIBUTARY_TEST_LONG === undefined ? 40 : 300,
  Elasticsearch: 12,
};

const value = fc.constantFrom('1', '2', '3');
const optional = (freq: number) => fc.option(value, { nil: undefined, freq });
const fact = fc.record({
  kind: fc.constantFrom('identify', 'identify', 'identify', 'alias', 'group', 'track', 'page'),
  user: optional(3),
  device: optional(3),
  email: optional(2),
  previous: value,
  second: fc.nat(9),
});
type Fact = typeof fact extends fc.Arbitrary<infer Value> ? Value : never;

/** How a schedule cuts the partitions into batches, and which it reads next, beside another one, or again. */
const step = fc.record({
  partition: fc.nat(PARTITIONS - 1),
  entries: fc.integer({ min: 1, max: 5 }),
  beside: fc.boolean(),
  again: fc.nat(3),
});
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

/** The partitions of the accepted events, as the gateway keys them. */
function partitionsOf(facts: readonly Fact[], round: number) {
  const partitions = Array.from({ length: PARTITIONS }, (): ReturnType<typeof entryOf>[] => []);
  for (const [n, { kind, user, device, email, previous, second }] of facts.entries()) {
    const subject = user ?? device;
    const former = `${n % 2 === 0 ? 'u' : 'd'}${previous}`;
    const isAlias =
      kind === 'alias' && user !== undefined && former !== `u${user}` && former !== `d${device}`;
    if (subject === undefined || (kind === 'alias' && !isAlias)) continue;
    const {
      event: _name,
      properties: _properties,
      user_id: _user,
      ...base
    } = event(`m${n}`, { type: 'identify' });
    const at = `2026-01-01T10:00:0${second}.000Z`;
    const named = (text: string) => `r${round}-${text}`;
    const one: CanonicalEvent = {
      ...base,
      type: isAlias ? 'identify' : (kind as CanonicalEvent['type']),
      timestamp: at,
      received_at: at,
      ...(user === undefined ? {} : { user_id: named(`u${user}`) }),
      ...(device === undefined ? {} : { anonymous_id: named(`d${device}`) }),
      ...(kind === 'group' ? { group_id: `g${n % 2}` } : {}),
      ...(isAlias ? { context: { alias: { previous_id: named(former) } } } : {}),
      traits: {
        [`n${n % 3}`]: n,
        by: subject,
        ...(email === undefined ? {} : { email: `${named(email)}@x.example` }),
      },
    };
    const headers = { [HEADER.type]: one.type, [HEADER.environment]: one.environment };
    const partition = [...subject].reduce(
      (sum, letter) => sum + letter.charCodeAt(0),
      user === undefined ? 1 : 0,
    );
    const entries = partitions[partition % PARTITIONS] ?? [];
    const key = `w:${one.user_id ?? one.anonymous_id}`;
    entries.push({ ...entryOf(TOPIC.accepted, entries.length, one, headers), key });
  }
  return partitions;
}

/** Reads all partitions by the schedule; a batch may begin before the last one of its partition ended, as after a crash. */
async function read(
  run: ReturnType<typeof setUp>['run'],
  partitions: ReturnType<typeof partitionsOf>,
  steps: readonly Step[],
): Promise<void> {
  const read = partitions.map(() => 0);
  const underWay = new Map<number, Promise<unknown>>();
  const all = [
    ...steps,
    ...partitions.map((entries, partition) => ({
      partition,
      entries: entries.length,
      beside: true,
      again: 0,
    })),
  ];
  for (const { partition, entries, beside, again } of all) {
    await underWay.get(partition);
    const from = Math.max(0, (read[partition] ?? 0) - again);
    const batch = (partitions[partition] ?? []).slice(from, from + again + entries);
    if (batch.length === 0) continue;
    read[partition] = from + batch.length;
    underWay.set(partition, run('profile', batch));
    if (!beside) await Promise.all(underWay.values());
  }
  await Promise.all(underWay.values());
}

/** What searches show of the people of a round, without ucids and the times of processing. */
async function shown(profiles: ProfileStore, round: number): Promise<readonly string[]> {
  const names = ['1', '2', '3'].flatMap((each) => [
    { type: 'user_id', value: `r${round}-u${each}` },
    { type: 'user_id', value: `r${round}-d${each}` },
    { type: 'anonymous_id', value: `r${round}-d${each}` },
    { type: 'anonymous_id', value: `r${round}-u${each}` },
    { type: 'email', value: `r${round}-${each}@x.example` },
  ]);
  const found = await profiles.search({ org: 1, regions: ['eu'], identities: names, ucids: [] });
  return found
    .map((profile) => {
      const { ids, profile: attributes } = recordOf(profile);
      const { linkedUcid: _, ...identities } = ids;
      return JSON.stringify({ identities, attributes });
    })
    .sort();
}

/** The long form looks for logs that nobody has seen; the short one guards against steps back. */
const SEED = process.env.TRIBUTARY_TEST_LONG === undefined ? { seed: 14 } : {};

export function anyOrder(stage: Stage): void {
  describe('the stage profile', () => {
    it('made other profiles where it batched the same log differently, read its partitions in another order or twice', async () => {
      const open = async () => {
        const installation = await stage.installation(86_400_000);
        const profiles = await installation.open({ publish: async () => {}, clock: () => NOW });
        return { profiles, run: setUp({}, { profiles, logger: NO_LOGGER, metrics: NO_METRICS }).run };
      };
      const [one, other] = [await open(), await open()];
      let round = 0;
      await fc.assert(
        fc.asyncProperty(
          fc.array(fact, { minLength: 2, maxLength: 14 }),
          fc.array(step, { maxLength: 8 }),
          fc.array(step, { maxLength: 8 }),
          async (facts, some, others) => {
            const partitions = partitionsOf(facts, ++round);
            await read(one.run, partitions, some);
            await read(other.run, partitions, others);
            const profiles = await shown(one.profiles, round);
            expect(await shown(other.profiles, round)).toEqual(profiles);
            await read(one.run, partitions, others);
            expect(await shown(one.profiles, round)).toEqual(profiles);
          },
        ),
        { numRuns: ROUNDS[stage.harness.name] ?? 12, ...SEED },
      );
    });
  });
}
