import { HEADER, TOPIC } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { entryOf, event, START, setUp, topicsOf } from '../harness.ts';
import { contractOf } from '../memory-catalog.ts';

const RECEIVED = 'events.production';

const CONTRACT = contractOf();

describe('validate', () => {
  it('keeps the digits of large numbers if a contract removes other fields', async () => {
    const { run, catalog, world } = setUp();
    catalog.add('contract.created', CONTRACT.id, CONTRACT);
    world.evaluate = ({ properties }) => {
      const { extra: _, ...subject } = properties ?? {};
      return { outcome: 'omitted', violations: [], subject };
    };
    const { properties: _, ...rest } = event('big');
    const properties = '{"order":6412589630147852369,"lines":[{"id":0.1234567890123456789}]';
    const text = `${JSON.stringify(rest).slice(0, -1)},"properties":${properties},"extra":1}}`;
    const [accepted] = await run('validate', [
      entryOf(RECEIVED, 0, text, { [HEADER.catalogPosition]: String(catalog.position) }),
    ]);
    expect(accepted?.value).toContain(`${properties}}`);
    expect(accepted?.value).not.toContain('extra');
  });

  it('counts by the stamp of the log where the clock of the gateway is wrong', async () => {
    const { run, notes } = setUp();
    const received_at = new Date(START + 7_300_000).toISOString();
    await run('validate', [entryOf(RECEIVED, 0, event('ahead', { received_at }))]);
    expect(notes[0]).toMatchObject({ event: { receivedAt: START }, measures: 'received+accepted' });
  });

  it('drops a repeated message id, and drops the same one on a replay', async () => {
    const { run } = setUp();
    const entries = [
      entryOf(RECEIVED, 0, event('a')),
      entryOf(RECEIVED, 1, event('b')),
      entryOf(RECEIVED, 2, event('a', { event: 'Again' })),
    ];
    const once = await run('validate', entries);
    expect(once.map(({ value }) => JSON.parse(value).message_id)).toEqual(['a', 'b']);
    expect(await run('validate', entries)).toEqual(once);
    expect(await run('validate', entries.slice(2))).toEqual([]);
  });

  it('treats the same message id of another environment as another event', async () => {
    const { run } = setUp();
    const entries = [
      entryOf(RECEIVED, 0, event('a')),
      entryOf(RECEIVED, 1, event('a', { environment: 'development' })),
    ];
    expect(await run('validate', entries)).toHaveLength(2);
  });

  it('evaluates by the contract as of the catalog position of the event', async () => {
    const { run, catalog, world } = setUp();
    const before = catalog.position;
    catalog.add('contract.created', CONTRACT.id, CONTRACT);
    world.evaluate = () => ({
      outcome: 'rejected',
      violations: [{ kind: 'required', path: '/total', message: 'is missing', action: 'blocked' }],
    });
    const outputRecords = await run('validate', [
      entryOf(RECEIVED, 0, event('a'), { [HEADER.catalogPosition]: String(before) }),
      entryOf(RECEIVED, 1, event('b'), { [HEADER.catalogPosition]: String(before + 1) }),
    ]);
    expect(topicsOf(outputRecords)).toEqual([TOPIC.accepted, TOPIC.rejected, TOPIC.violations]);
    expect(outputRecords[1]?.headers).toMatchObject({ outcome: 'rejected', 'contract-version': '1' });
  });

  describe('of an event that its contract rejects', () => {
    function setUpStrict() {
      const set = setUp();
      set.catalog.add('contract.created', CONTRACT.id, CONTRACT);
      set.world.evaluate = ({ properties }) =>
        properties?.total === undefined
          ? {
              outcome: 'rejected',
              violations: [{ kind: 'required', path: '/total', message: 'is missing', action: 'blocked' }],
            }
          : { outcome: 'accepted', violations: [] };
      const headers = { [HEADER.catalogPosition]: String(set.catalog.position) };
      const at = (offset: number, id: string, properties = {}) =>
        entryOf(RECEIVED, offset, event(id, { event: 'Order Placed', properties }), headers);
      const bad = (offset: number) => at(offset, 'order-31');
      const good = (offset: number) => at(offset, 'order-31', { total: 12 });
      return { ...set, bad, good };
    }

    it('the message id was not released, and the corrected event was dropped: in the same batch and in a later one', async () => {
      for (const cut of [1, 2, 3]) {
        const { run, bad, good } = setUpStrict();
        const entries = [bad(0), bad(1), good(2), good(3), bad(4)];
        const before = await run('validate', entries.slice(0, cut));
        const outputRecords = [...before, ...(await run('validate', entries.slice(cut)))];
        expect(topicsOf(outputRecords)).toEqual([TOPIC.rejected, TOPIC.violations, TOPIC.accepted]);
      }
    });

    it('has the same result after a crash between the dedupe claims and the commit, with any later claims', async () => {
      const { run, bad, good } = setUpStrict();
      const once = await run('validate', [bad(0)]);
      expect(topicsOf(await run('validate', [good(1)]))).toEqual([TOPIC.accepted]);
      expect(await run('validate', [bad(0)])).toEqual(once);
      expect(topicsOf(await run('validate', [bad(0), good(1), good(2)]))).toEqual([
        TOPIC.rejected,
        TOPIC.violations,
        TOPIC.accepted,
      ]);
    });

    it('is dropped if an accepted event already has the id', async () => {
      const { run, bad, good } = setUpStrict();
      expect(topicsOf(await run('validate', [good(0), bad(1)]))).toEqual([TOPIC.accepted]);
      expect(await run('validate', [bad(2)])).toEqual([]);
    });
  });

  describe('of a batch whose contract is slow', () => {
    function setUpSlow() {
      const set = setUp();
      set.catalog.add('contract.created', CONTRACT.id, CONTRACT);
      let judged = 0;
      set.world.evaluate = ({ message_id }) => {
        judged += 1;
        set.time.pass(3);
        return { outcome: message_id.endsWith('7') ? 'warned' : 'accepted', violations: [] };
      };
      const headers = { [HEADER.catalogPosition]: String(set.catalog.position) };
      const entries = Array.from({ length: 30 }, (_, n) =>
        entryOf(RECEIVED, n, event(n === 20 ? 'm19' : `m${n}`), headers),
      );
      return { ...set, entries, judged: () => judged };
    }

    it('held the thread until all of it was evaluated: other work runs in between, and the verdicts keep their order', async () => {
      const { run, entries, judged } = setUpSlow();
      const seen: number[] = [];
      const look = () => {
        seen.push(judged());
        ticking = setImmediate(look);
      };
      let ticking = setImmediate(look);
      const outputRecords = await run('validate', entries);
      clearImmediate(ticking);
      seen.push(judged());
      const steps = seen.map((count, n) => count - (seen[n - 1] ?? 0));
      expect(Math.max(...steps)).toBeLessThanOrEqual(2);
      expect(judged()).toBe(30);
      expect(
        outputRecords.map(({ value, headers }) => [JSON.parse(value).message_id, headers.outcome]),
      ).toEqual(
        entries.flatMap((_, n) => (n === 20 ? [] : [[`m${n}`, n % 10 === 7 ? 'warned' : 'accepted']])),
      );
    });

    it('is not evaluated further once its partition is lost, and has the same result in the next process', async () => {
      const { run, entries, judged, world } = setUpSlow();
      const lost = new AbortController();
      const { evaluate } = world;
      world.evaluate = (one) => {
        if (one.message_id === 'm9') lost.abort();
        return evaluate(one);
      };
      await expect(run('validate', entries, lost.signal)).rejects.toMatchObject({ code: 'unavailable' });
      expect(judged()).toBeLessThan(13);
      expect(await run('validate', entries)).toEqual(await run('validate', entries));
    });
  });

  it('is unavailable, and emits nothing, while its catalog lags behind an event', async () => {
    const { run, catalog } = setUp();
    const ahead = { [HEADER.catalogPosition]: String(catalog.position + 1) };
    const validating = run('validate', [entryOf(RECEIVED, 0, event('a'), ahead)]);
    await expect(validating).rejects.toMatchObject({ code: 'unavailable' });
  });

  it.each([
    ['no JSON', '{'],
    ['a list', '[]'],
    ['no message id', { ...event('a'), message_id: '' }],
    ['no known type', { ...event('a'), type: 'delete' }],
    ['no known environment', { ...event('a'), environment: 'staging' }],
    ['no time', { ...event('a'), received_at: 'now' }],
  ])('throws for an entry with %s, so that only that one is dead-lettered', async (_name, value) => {
    const { run } = setUp();
    const validating = run('validate', [entryOf(RECEIVED, 0, value)]);
    await expect(validating).rejects.toMatchObject({ code: 'invalid_input' });
  });
});
