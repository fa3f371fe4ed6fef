import {
  BytesTally,
  type CanonicalEvent,
  HEADER,
  type OutputRecord,
  type ScopeBytes,
  type StageNote,
  TOPIC,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { entryOf, event, handedOn, setUp } from '../harness.ts';
import { WORKSPACE } from '../memory-catalog.ts';
import { RecordedProfiles } from '../profiles/recorded-profiles.ts';

const uuid = (n: number) => `${String(n).padStart(8, '0')}-bbbb-4ccc-8ddd-eeeeeeeeeeee`;

/** What the commit of some output records, and the notes of a stage, change of the bytes that are expected of the workspace. */
function expectedOf(outputRecords: readonly OutputRecord[], notes: readonly StageNote[]): number {
  const tally = new BytesTally();
  tally.writtenRecords(outputRecords);
  for (const note of notes) if ('scope' in note) tally.add(note);
  const ofWorkspace = ({ scope }: ScopeBytes) => scope === WORKSPACE;
  return [...tally].find(ofWorkspace)?.expected ?? 0;
}

function setUpStages() {
  const profiles = new RecordedProfiles();
  const set = setUp({}, { profiles });
  const { run, notes, catalog } = set;
  let expected = 0;
  /** Runs a stage on one record, and returns what it emits. */
  const work = async (stage: string, record: Parameters<typeof handedOn>[0]) => {
    notes.splice(0);
    const outputRecords = await run(stage, [handedOn(record)]);
    expected += expectedOf(outputRecords, notes);
    return outputRecords;
  };
  const received = (fields: Partial<CanonicalEvent>) => ({
    ...entryOf('events.production', 0, event(uuid(1), fields), {
      [HEADER.catalogPosition]: String(catalog.position),
    }),
    topic: 'events.production',
  });
  return { ...set, profiles, work, received, expected: () => expected };
}

const PERSON = { type: 'identify', user_id: 'u7', traits: { bio: 'b'.repeat(1_500) } } as const;

describe('bytes of an event that later stages have yet to write to their stores', () => {
  it('were unknown for people who are new: the disk was full when the stage `profile` had written them', async () => {
    const { work, received, profiles, expected } = setUpStages();
    const [accepted] = await work('validate', received(PERSON));
    expect(accepted?.topic).toBe(TOPIC.accepted);
    expect(expected()).toBeGreaterThan(4 * JSON.stringify(event(uuid(1), PERSON)).length);
    await work('profile', accepted);
    expect(profiles.writes).toHaveLength(1);
    expect(expected()).toBe(0);
  });

  it('are those of one environment and of three kinds of events', async () => {
    const { work, received, expected } = setUpStages();
    await work('validate', received({ ...PERSON, environment: 'development' }));
    await work('validate', received({ type: 'page' }));
    expect(expected()).toBe(0);
  });

  it('are expected of violations, until the history has them', async () => {
    const { work, received, catalog, world, expected } = setUpStages();
    catalog.addContract({ enforcement_mode: 'warn' });
    world.evaluate = () => ({
      outcome: 'warned',
      violations: Array.from({ length: 12 }, (_, n) => ({
        kind: 'type',
        path: `/properties/f${n}`,
        message: 'must be integer',
        action: 'warned',
      })),
    });
    const violations = (await work('validate', received({}))).filter(
      ({ topic }) => topic === TOPIC.violations,
    );
    expect(violations.length).toBeGreaterThan(10);
    expect(expected()).toBeGreaterThan(violations.length * 300);
    for (const violation of violations) await work('history', violation);
    expect(expected()).toBe(0);
  });

  it('are expected of an event in the slow queue, which is received once', async () => {
    const { run, work, catalog, world, time, notes, expected } = setUpStages();
    catalog.addContract({ enforcement_mode: 'warn' });
    world.evaluate = () => {
      time.pass(4);
      return { outcome: 'accepted', violations: [] };
    };
    const headers = { [HEADER.catalogPosition]: String(catalog.position) };
    const events = Array.from({ length: 80 }, (_, n) =>
      entryOf('events.production', n, event(uuid(n)), headers),
    );
    // A workspace alone is never over its share.
    await run('validate', [entryOf('events.production', 0, event(uuid(99), { workspace_id: uuid(7) }))]);
    notes.splice(0);
    const slow = (await run('validate', events)).filter(({ topic }) => topic === TOPIC.receivedSlow);
    const received = notes.reduce((sum, note) => sum + ('scope' in note ? note.received : 0), 0);
    expect(received).toBe(events.reduce((sum, { key, value }) => sum + key.length + value.length, 0));
    expect(expectedOf(slow, [])).toBeGreaterThan(5 * slow.length * JSON.stringify(event(uuid(1))).length);
    for (const one of slow) await work('validate.slow', one);
    expect(expected()).toBe(-expectedOf(slow, []));
    expect(notes.some((note) => 'scope' in note && note.received > 0)).toBe(false);
  });
});
