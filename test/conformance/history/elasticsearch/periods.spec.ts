import { type History, type HistoryEntry, InvalidInput, NO_LOGGER, Unavailable } from '@tributary/core';
import { openElasticsearchHistory } from '@tributary/infra';
import { describe, expect, it, onTestFinished } from 'vitest';
import { removeIndices } from '../../../helpers/elasticsearch.ts';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { entry, WORKSPACE_ID } from '../suite/harness.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const NOON = Date.parse('2026-03-05T12:00:00Z');
const QUERY = { kind: 'delivery', workspaceId: WORKSPACE_ID, limit: 1_000 } as const;

/** An installation with a fixed clock. */
class Installation {
  readonly prefix: string;
  readonly url = engines()?.elasticsearchUrl ?? '';
  now = NOON;

  constructor(prefix: string) {
    this.prefix = prefix;
    onTestFinished(() => removeIndices(this.url, prefix));
  }

  async open(retentionEveryMs: number | false = false): Promise<History> {
    const history = await openElasticsearchHistory({
      access: { urls: [this.url] },
      prefix: this.prefix,
      clock: () => this.now,
      retentionMs: DAY_MS,
      logger: NO_LOGGER,
      retentionEveryMs,
    });
    onTestFinished(() => history.close());
    return history;
  }

  /** Opens a history, which drops expired entries at that time, and closes it. */
  async drop(): Promise<void> {
    await (await this.open(DAY_MS)).close();
  }

  /** The dates of the existing indices. */
  async dates(): Promise<readonly string[]> {
    return (await this.indices()).map((name) => name.slice(-'2026.03.05-01234567'.length, -9)).sort();
  }

  async indices(): Promise<readonly string[]> {
    const { status, body } = await this.ask('GET', `_alias/tributary-${this.prefix}history`);
    return status === 404 ? [] : Object.keys(body as object);
  }

  async ask(method: string, path: string, body?: object): Promise<{ status: number; body: unknown }> {
    const response = await fetch(`${this.url}/${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: await response.json() };
  }
}

function at(ms: number, changes: Partial<HistoryEntry> = {}): HistoryEntry {
  return entry(0, { id: `e-${ms}`, at: ms, ...changes });
}

describe.skipIf(!engines())('the indices of the Elasticsearch history', () => {
  it('are one a day, and go whole when nothing was put for the retention and two hours', async () => {
    const installation = new Installation(freshPrefix());
    const history = await installation.open();
    await history.put([at(NOON - DAY_MS), at(NOON), at(NOON + 1)]);
    expect(await installation.dates()).toEqual(['2026.03.04', '2026.03.05']);
    installation.now += DAY_MS;
    await history.put([at(NOON, { version: 2 })]);
    await installation.drop();
    expect(await installation.dates()).toEqual(['2026.03.04', '2026.03.05']);
    installation.now += 2 * HOUR_MS + 1;
    await installation.drop();
    expect(await installation.dates()).toEqual(['2026.03.05']);
    expect(await history.get('delivery', WORKSPACE_ID, `e-${NOON - DAY_MS}`)).toBeUndefined();
    expect((await history.get('delivery', WORKSPACE_ID, `e-${NOON}`))?.version).toBe(2);
    await expect
      .poll(async () => (await history.list(QUERY)).entries.map(({ id }) => id))
      .toEqual([`e-${NOON + 1}`, `e-${NOON}`]);
    installation.now += DAY_MS;
    await installation.drop();
    expect(await installation.dates()).toEqual([]);
    expect(await history.list(QUERY)).toEqual({ entries: [] });
  });

  it('are put into again after they were dropped, by a process that did not see it', async () => {
    const installation = new Installation(freshPrefix());
    const [history, other] = [await installation.open(), await installation.open()];
    await history.put([at(NOON, { version: 5 })]);
    await other.put([at(NOON, { version: 6 })]);
    installation.now += 3 * DAY_MS;
    await installation.drop();
    await Promise.all([history.put([at(NOON, { version: 1 })]), other.put([at(NOON + 1)])]);
    expect(await installation.dates()).toEqual(['2026.03.05']);
    expect((await history.get('delivery', WORKSPACE_ID, `e-${NOON}`))?.version).toBe(1);
    expect(await history.get('delivery', WORKSPACE_ID, `e-${NOON + 1}`)).toBeDefined();
  });

  it('are made once by processes that put first at the same time', async () => {
    const installation = new Installation(freshPrefix());
    const histories = await Promise.all(Array.from({ length: 5 }, () => installation.open()));
    await Promise.all(histories.map((history, n) => history.put([at(NOON + n), at(NOON + DAY_MS + n)])));
    expect(await installation.dates()).toEqual(['2026.03.05', '2026.03.06']);
    const [history] = histories;
    await expect.poll(async () => (await history?.list(QUERY))?.entries.length).toBe(10);
  });

  it('lose no entries that were put while several processes drop expired ones', async () => {
    const installation = new Installation(freshPrefix());
    const histories = await Promise.all([installation.open(), installation.open()]);
    for (let round = 0; round < 8; round++) {
      const outcomes = await Promise.allSettled([
        ...histories.map((history, n) => history.put([at(NOON, { id: `r-${round}-${n}` })])),
        installation.drop(),
        installation.drop(),
      ]);
      for (const n of histories.keys())
        if (outcomes[n]?.status === 'fulfilled')
          expect(await histories[n]?.get('delivery', WORKSPACE_ID, `r-${round}-${n}`)).toBeDefined();
      expect(outcomes.filter(({ status }) => status === 'fulfilled').length).toBeGreaterThanOrEqual(2);
      installation.now += 3 * DAY_MS;
    }
  });

  it('condemned by a process that did not get to delete them are deleted by another', async () => {
    const installation = new Installation(freshPrefix());
    const history = await installation.open();
    const condemn = async () => {
      const [index] = await installation.indices();
      await installation.ask('PUT', `${index}/_doc/marker`, {
        marker: { touched_at: NOON, condemned: true },
      });
      return index;
    };
    await history.put([at(NOON, { version: 9 })]);
    const condemned = await condemn();
    installation.now += 2 * HOUR_MS;
    await history.put([at(NOON + 1)]);
    expect(await installation.indices()).not.toContain(condemned);
    expect(await history.get('delivery', WORKSPACE_ID, `e-${NOON}`)).toBeUndefined();
    expect(await history.get('delivery', WORKSPACE_ID, `e-${NOON + 1}`)).toBeDefined();
    await condemn();
    await installation.drop();
    expect(await installation.indices()).toEqual([]);
  });

  it('that their maker left without a marker are put into, and dropped a retention later', async () => {
    const installation = new Installation(freshPrefix());
    const history = await installation.open();
    await history.put([at(NOON)]);
    const [index] = await installation.indices();
    await installation.ask('DELETE', `${index}/_doc/marker`);
    await installation.drop();
    installation.now += DAY_MS;
    await installation.drop();
    expect(await installation.dates()).toEqual(['2026.03.05']);
    installation.now += 3 * HOUR_MS;
    await installation.drop();
    expect(await installation.dates()).toEqual([]);
  });

  it('deleted by an operator are created again by the put after the one that noticed', async () => {
    const installation = new Installation(freshPrefix());
    const history = await installation.open();
    await history.put([at(NOON)]);
    const [index] = await installation.indices();
    await installation.ask('DELETE', `${index}`);
    await expect(history.put([at(NOON)])).rejects.toThrow(Unavailable);
    await history.put([at(NOON)]);
    expect(await history.get('delivery', WORKSPACE_ID, `e-${NOON}`)).toBeDefined();
  });

  it('of installations that share a cluster are their own, whatever the prefixes', async () => {
    const first = freshPrefix();
    const prefixes = [first, `${first}history-`, first.toUpperCase(), `${first}=t`];
    for (const [n, prefix] of prefixes.entries()) {
      const installation = new Installation(prefix.replace(/[A-Z]/g, (letter) => `=${letter.toLowerCase()}`));
      const history = await openElasticsearchHistory({
        access: { urls: [installation.url] },
        prefix,
        clock: () => NOON,
        retentionMs: DAY_MS,
        logger: NO_LOGGER,
        retentionEveryMs: false,
      });
      onTestFinished(() => history.close());
      await history.put([at(NOON + n)]);
      await expect
        .poll(async () => (await history.list(QUERY)).entries.map(({ id }) => id))
        .toEqual([`e-${NOON + n}`]);
      expect(await history.get('delivery', WORKSPACE_ID, `e-${NOON + n - 1}`)).toBeUndefined();
    }
  });

  it('that refuse one entry of a put take the others', async () => {
    const installation = new Installation(freshPrefix());
    const history = await installation.open();
    await history.put([at(NOON)]);
    const [index] = await installation.indices();
    const { body } = await installation.ask('GET', `${index}/_mapping`);
    const [{ mappings } = { mappings: { properties: {} } }] = Object.values(
      body as Record<string, { mappings: { properties: object } }>,
    );
    await installation.ask('DELETE', `${index}`);
    const base = `tributary-${installation.prefix}history`;
    const aliases = { [base]: {}, [`${base}-1d-2026.03.05`]: { is_write_index: true } };
    // The type of the `facets` field is not a number, so this mapping is wrong.
    const properties = { ...mappings.properties, facets: { type: 'long' } };
    const made = await installation.ask('PUT', `${index}`, {
      aliases,
      mappings: { ...mappings, properties },
    });
    expect(made.status).toBe(200);
    const reopened = await installation.open();
    const odd = at(NOON, { facets: {} });
    const putting = reopened.put([at(NOON + 1), odd, at(NOON + 2)]);
    await expect(putting).rejects.toThrow(InvalidInput);
    await expect(putting).rejects.toThrow('Elasticsearch answered 400 (document_parsing_exception)');
    expect(await reopened.get('delivery', WORKSPACE_ID, odd.id)).toEqual(odd);
  });
});

describe.skipIf(!engines())('the Elasticsearch history', () => {
  it('keeps bodies and facets that an index would refuse or cut', async () => {
    const installation = new Installation(freshPrefix());
    const history = await installation.open();
    let deep: HistoryEntry['body'] = { end: true };
    for (let level = 0; level < 2_000; level++) deep = { deep };
    const body = JSON.parse(
      '{"__proto__":{"a":1},"constructor":{"prototype":1},"":1,"a..b":2," ":3,".":4,"big":1e300}',
    );
    const odd = [
      at(NOON + 1, { body: deep }),
      at(NOON + 2, { body, facets: { path: 'x'.repeat(40_000), lone: '\ud800' } }),
    ];
    await history.put(odd);
    for (const each of odd)
      expect(JSON.stringify(await history.get('delivery', WORKSPACE_ID, each.id))).toBe(JSON.stringify(each));
    const facets = odd[1]?.facets ?? {};
    await expect.poll(async () => (await history.list({ ...QUERY, facets })).entries.length).toBe(1);
    expect((await history.list({ ...QUERY, facets: { path: 'x'.repeat(39_999) } })).entries).toEqual([]);
  });

  it.each([
    ['an id without end', { id: 'x'.repeat(1_001) }],
    ['a workspace without end', { workspaceId: 'x'.repeat(1_001) }],
    ['a time that is none', { at: Number.NaN }],
    ['a time that no calendar has', { at: 8.64e15 + 1 }],
    ['a version below 0', { version: -1 }],
    ['half a version', { version: 0.5 }],
  ])('refuses %s before it puts anything', async (_, changes) => {
    const installation = new Installation(freshPrefix());
    const history = await installation.open();
    await expect(history.put([at(NOON), at(NOON + 1, changes)])).rejects.toThrow(InvalidInput);
    expect(await installation.indices()).toEqual([]);
  });

  it('pages through thousands of entries while others put more', async () => {
    const installation = new Installation(freshPrefix());
    const [history, other] = [await installation.open(), await installation.open()];
    const old = Array.from({ length: 5_000 }, (_, n) =>
      at(NOON - 10 * n, { facets: { third: String(n % 3) } }),
    );
    await history.put(old);
    const facets = { third: '1' };
    const wanted = old.filter((each) => each.facets.third === '1').map(({ id }) => id);
    await expect
      .poll(async () => (await history.list({ ...QUERY, limit: 9_999, facets })).entries.length)
      .toBe(wanted.length);
    const seen: string[] = [];
    for (let cursor: string | undefined, page = 0; ; page++) {
      const found = await history.list({
        ...QUERY,
        limit: 130,
        facets,
        ...(cursor === undefined ? {} : { cursor }),
      });
      seen.push(...found.entries.map(({ id }) => id));
      cursor = found.next;
      if (cursor === undefined) break;
      // Newer entries, older ones in between, and a new version of an old one.
      await other.put([
        at(NOON + 1 + page, { facets }),
        at(NOON - 3 - 10 * (page * 7), { facets: { third: '2' } }),
        ...old.slice(page * 100, page * 100 + 50).map((each) => ({ ...each, version: 2 })),
      ]);
    }
    expect(seen).toEqual(wanted);
  });

  it('of an older release get the field that groups are counted by', async () => {
    const installation = new Installation(freshPrefix());
    const base = `tributary-${installation.prefix}history`;
    const unindexed = { type: 'keyword', doc_values: false };
    const made = await installation.ask('PUT', `${base}-1d-2026.03.05-0123abcd`, {
      aliases: { [`${base}-1d-2026.03.05`]: { is_write_index: true } },
      settings: { refresh_interval: '500ms', auto_expand_replicas: '0-1' },
      mappings: {
        dynamic: 'strict',
        properties: {
          kind: unindexed,
          workspace_id: unindexed,
          facets: unindexed,
          at: { type: 'long' },
          id: { type: 'keyword', index: false },
          entry: { type: 'object', enabled: false },
          marker: { type: 'object', enabled: false },
        },
      },
    });
    expect(made.status).toBe(200);
    const history = await installation.open();
    await history.put([at(NOON, { group: { failure: 'timed out' } }), at(NOON + 1)]);
    const groups = () => history.groups({ kind: 'delivery', workspaceId: WORKSPACE_ID, limit: 10 });
    await expect.poll(async () => (await groups()).groups).toMatchObject([{ count: 1, newest: `e-${NOON}` }]);
    expect(await installation.dates()).toEqual(['2026.03.05']);
  });
});
