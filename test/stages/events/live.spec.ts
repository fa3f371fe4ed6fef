import { HEADER, type LogEntry, type OutputRecord, TOPIC } from '@tributary/core';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { entryOf, event, handedOn, setUp } from '../harness.ts';
import { contractOf, WORKSPACE } from '../memory-catalog.ts';

const SEEN = {
  [HEADER.workspaceId]: WORKSPACE,
  [HEADER.environment]: 'production',
  [HEADER.outcome]: 'accepted',
};

function accepted(...offsets: readonly number[]): readonly LogEntry[] {
  return offsets.map((offset) => entryOf(TOPIC.accepted, offset, event(`m${offset}`), SEEN));
}

/** The items that a live stream of the tests' workspace would show now. */
async function shown({
  liveTail,
}: Pick<ReturnType<typeof setUp>, 'liveTail'>): Promise<readonly Record<string, unknown>[]> {
  const follower = await liveTail.follow(WORKSPACE, { wake() {} });
  onTestFinished(() => follower.close());
  return follower
    .take(10_000_000)
    .map((item) =>
      item.kind === 'event' ? (JSON.parse(item.event.data) as Record<string, unknown>) : { ...item },
    );
}

const CONTRACT = contractOf({ undeclared_fields: 'omit' });

describe('live', () => {
  it('shows the results of validate for an event: its outcome and every violation as the API lists it', async () => {
    const test = setUp();
    test.catalog.add('contract.created', CONTRACT.id, CONTRACT);
    const after = { [HEADER.catalogPosition]: String(test.catalog.position) };
    const violation = (action: 'warned' | 'omitted' | 'blocked') => ({
      kind: 'undeclared' as const,
      path: '/sécret/"x"',
      message: 'is not declared ☃',
      action,
    });
    const verdicts = {
      fine: { outcome: 'accepted', violations: [] },
      warned: {
        outcome: 'warned',
        violations: [violation('warned'), { ...violation('warned'), path: '/b' }],
      },
      omitted: { outcome: 'omitted', violations: [violation('omitted')], subject: {} },
      bad: { outcome: 'rejected', violations: [violation('blocked')] },
    } as const;
    test.world.evaluate = ({ message_id }) => verdicts[message_id as keyof typeof verdicts];
    const received = Object.keys(verdicts).map((id, offset) =>
      entryOf('events.production', offset, event(id), after),
    );
    const emitted = await test.run('validate', received);
    const to = (topic: string) => emitted.filter((one) => one.topic === topic);
    const handed = (outputRecords: readonly OutputRecord[]) =>
      outputRecords.map((one, offset) => handedOn(one, offset));
    await test.run('live', handed(to(TOPIC.accepted)));
    await test.run('live', handed(to(TOPIC.rejected)));
    const listed = to(TOPIC.violations).map(({ value }) => {
      const { workspace_id: _, ...violation } = JSON.parse(value) as Record<string, unknown>;
      return violation;
    });
    expect(listed).toHaveLength(4);
    expect(await shown(test)).toEqual([
      { ...event('fine'), outcome: 'accepted', violations: [] },
      { ...event('warned'), outcome: 'warned', violations: listed.slice(0, 2) },
      { ...event('omitted'), properties: {}, outcome: 'omitted', violations: listed.slice(2, 3) },
      { ...event('bad'), outcome: 'rejected', violations: listed.slice(3) },
    ]);
  });

  it('shows a replayed batch once, however it is cut', async () => {
    const test = setUp();
    await test.run('live', accepted(0, 1, 2));
    await test.run('live', accepted(0, 1, 2));
    await test.run('live', accepted(1, 2, 3));
    await test.run('live', accepted(9));
    expect((await shown(test)).map(({ message_id }) => message_id)).toEqual(['m0', 'm1', 'm2', 'm3', 'm9']);
  });

  it('showed nothing any more when the log was wiped and the tail stayed', async () => {
    const test = setUp();
    await test.run('live', accepted(500));
    await test.run('live', accepted(0, 1), undefined, async () => 2);
    await test.run('live', accepted(0, 1), undefined, async () => 2);
    expect((await shown(test)).map(({ message_id }) => message_id)).toEqual(['m500', 'm0', 'm1']);
  });

  it('reads a mark that another process set meanwhile not as a wiped log', async () => {
    const test = setUp();
    await test.run('live', accepted(0, 1, 2));
    await test.run('live', accepted(0, 1, 2), undefined, async () => 3);
    expect(await shown(test)).toHaveLength(3);
  });

  it('does not parse what passed without a violation', async () => {
    const test = setUp();
    const entries = accepted(0, 1);
    const parse = vi.spyOn(JSON, 'parse');
    onTestFinished(() => parse.mockRestore());
    await test.run('live', entries);
    expect(parse).not.toHaveBeenCalled();
  });

  it('keeps an event that was written over several lines one line', async () => {
    const test = setUp();
    await test.run('live', [entryOf(TOPIC.accepted, 0, JSON.stringify(event('m'), null, 2), SEEN)]);
    const follower = await test.liveTail.follow(WORKSPACE, { wake() {} });
    const [item] = follower.take(10_000);
    expect(item?.kind === 'event' && item.event.data.includes('\n')).toBe(false);
    expect(await shown(test)).toMatchObject([{ message_id: 'm', outcome: 'accepted' }]);
  });

  it.each([
    ['no workspace', { [HEADER.environment]: 'production' }, '{"a":1}'],
    ['no environment', { [HEADER.workspaceId]: WORKSPACE }, '{"a":1}'],
    ['no object', SEEN, '[]'],
    ['violations that are none', { ...SEEN, [HEADER.violations]: '{' }, JSON.stringify(event('m'))],
  ])('refuses an entry with %s as one that can never be shown', async (_, headers, value) => {
    const { run } = setUp();
    await expect(run('live', [entryOf(TOPIC.accepted, 0, value, headers)])).rejects.toMatchObject({
      code: 'invalid_input',
    });
  });
});
