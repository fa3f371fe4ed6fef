import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { type History, type HistoryEntry, InvalidInput, NO_LOGGER, Unavailable } from '@tributary/core';
import { openElasticsearchHistory } from '@tributary/infra';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { RunningEngine } from '../../../engines/index.ts';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { onLoopback } from '../../../helpers/on-loopback.ts';
import { ownEngines } from '../../../helpers/own-engines.ts';
import { entry, RETENTION_MS, START, WORKSPACE_ID } from '../suite/harness.ts';

const TIMEOUT_MS = 1_500;
const KILLS = 6;
const ENTRIES_A_KILL = 1_500;
const QUERY = { kind: 'delivery', workspaceId: WORKSPACE_ID, limit: 100_000 } as const;

async function open(url: string, prefix: string): Promise<History> {
  const history = await openElasticsearchHistory({
    access: { urls: [url] },
    prefix,
    clock: Date.now,
    retentionMs: RETENTION_MS,
    logger: NO_LOGGER,
    timeoutMs: TIMEOUT_MS,
  });
  onTestFinished(() => history.close());
  return history;
}

/** Puts as a stage does: retries until the engine answers. */
async function putInTheEnd(history: History, entries: readonly HistoryEntry[]): Promise<void> {
  while (true) {
    try {
      return await history.put(entries);
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      await sleep(20);
    }
  }
}

async function listed(history: History): Promise<readonly HistoryEntry[]> {
  return (await history.list(QUERY)).entries;
}

describe.skipIf(!engines())('a history whose Elasticsearch fails', () => {
  let engine: RunningEngine;
  beforeAll(async () => {
    engine = await ownEngines().elasticsearch.start();
  });
  afterAll(() => engine?.stop());

  it('keeps every entry it took, once and in its highest version, while two put and it is killed', async () => {
    const prefix = freshPrefix();
    const writers = await Promise.all([open(engine.url, prefix), open(engine.url, prefix)]);
    const total = KILLS * ENTRIES_A_KILL;
    let [stopped, put] = [false, 0];
    const writing = writers.map(async (history, writer) => {
      for (let n = 0; n < total || !stopped; n += 20) {
        const some = Array.from({ length: 20 }, (_, index) => {
          // Both writers put each entry, in four versions, in no order.
          const version = 2 * ((n + index * 7) % 2) + writer;
          return [version, 3 - version].map((each) =>
            entry((n + index) % total, { version: each, body: { version: each } }),
          );
        });
        await putInTheEnd(history, some.flat());
        put += 20;
      }
    });
    for (let kill = 0; kill < KILLS; kill++) {
      await expect.poll(() => put, { timeout: 30_000 }).toBeGreaterThan((kill + 0.3) * ENTRIES_A_KILL);
      await engine.kill();
      await sleep(300);
      await engine.restart();
    }
    stopped = true;
    await Promise.all(writing);
    const [history] = writers;
    if (history === undefined) throw new Error('there is no writer');
    const newest = async () => (await listed(history)).filter(({ body }) => body.version === 3).length;
    await expect.poll(newest, { timeout: 10_000 }).toBe(total);
    const all = await listed(history);
    expect(new Set(all.map(({ id }) => id)).size).toBe(total);
    expect(all.filter(({ body }) => body.version !== 3)).toEqual([]);
    expect(all.map(({ at }) => at)).toEqual(Array.from({ length: total }, (_, n) => START + total - 1 - n));
  }, 180_000);

  it('answers within its deadline that it is unavailable, and accepts and lists again by itself, also one that is opened then', async () => {
    const history = await open(engine.url, freshPrefix());
    await history.put([entry(1)]);
    for (const [stop, start] of [
      [() => engine.pause(), () => engine.resume()],
      [() => engine.kill(), () => engine.restart()],
    ] as const) {
      await stop();
      const startedAt = performance.now();
      await expect(history.put([entry(2)])).rejects.toThrow(Unavailable);
      await expect(history.list(QUERY)).rejects.toThrow(Unavailable);
      await expect(history.get('delivery', WORKSPACE_ID, entry(1).id)).rejects.toThrow(Unavailable);
      expect(performance.now() - startedAt).toBeLessThan(6 * TIMEOUT_MS);
      const late = await open(engine.url, freshPrefix());
      await expect(late.put([entry(1)])).rejects.toThrow(Unavailable);
      await start();
      await putInTheEnd(late, [entry(1)]);
      await expect
        .poll(() => late.get('delivery', WORKSPACE_ID, entry(1).id).catch(() => {}))
        .toEqual(entry(1));
      await putInTheEnd(history, [entry(2)]);
      await expect.poll(async () => (await listed(history)).length, { timeout: 10_000 }).toBe(2);
    }
  });
});

describe('a history whose Elasticsearch refuses all credentials', () => {
  const asked: (string | undefined)[] = [];
  const answering = async (status: number, product: string | undefined) => {
    const server = createServer((request, response) => {
      asked.push(request.headers.authorization);
      response.writeHead(status, {
        'content-type': 'application/json',
        ...(product === undefined ? {} : { 'x-elastic-product': product }),
      });
      response.end(`{"error":{"type":"security_exception","reason":"words"},"status":${status}}`);
    });
    const { url, close } = await onLoopback(server);
    onTestFinished(close);
    return url;
  };

  it('is not opened with wrong credentials, and states so without repeating any', async () => {
    const url = await answering(401, 'Elasticsearch');
    const opening = open(url, '');
    await expect(opening).rejects.toThrow(InvalidInput);
    await expect(opening).rejects.toThrow(
      /^Elasticsearch at 127\.0\.0\.1:\d+: the credentials are not accepted$/,
    );
  });

  it.each([
    [{ apiKey: 'encoded' }, 'ApiKey encoded'],
    [{ username: 'me', password: 'p@ss' }, `Basic ${Buffer.from('me:p@ss').toString('base64')}`],
  ])('is identified to the server: %o', async (credentials, header) => {
    const urls = [await answering(401, 'Elasticsearch')];
    asked.length = 0;
    const opening = openElasticsearchHistory({
      access: { urls, credentials },
      prefix: '',
      clock: Date.now,
      retentionMs: RETENTION_MS,
      logger: NO_LOGGER,
    });
    await expect(opening).rejects.toThrow(InvalidInput);
    expect(asked).toEqual([header]);
  });

  it('is not opened where something else answers', async () => {
    await expect(open(await answering(200, undefined), '')).rejects.toThrow(/not Elasticsearch/);
  });

  it('waits for missing rights, and states the kind of refusal but not its words', async () => {
    const history = await open(await answering(403, 'Elasticsearch'), '');
    await expect(history.put([entry(1)])).rejects.toThrow(Unavailable);
    await expect(history.put([entry(1)])).rejects.toThrow('Elasticsearch answered 403 (security_exception)');
  });
});
