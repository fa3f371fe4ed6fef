import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf, type ProfileStore, Unavailable } from '@tributary/core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { RunningEngine } from '../../../engines/index.ts';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { ownEngines } from '../../../helpers/own-engines.ts';
import type { WriterLine } from '../programs/writer.ts';
import { Published, RETENTION_MS } from '../suite/harness.ts';
import { attribute, People, treeOf } from '../suite/people.ts';
import type { Traffic } from '../traffic/operations.ts';
import { verdictOn } from '../traffic/verdict.ts';
import { runWriters } from '../traffic/writers.ts';
import { type ElasticsearchSettings, harness } from './harness.ts';

const TIMEOUT_MS = 1_500;
const SIZE = { processes: 5, writersOfProcess: 20, operationsOfWriter: 100, kills: 10 };
const NODE_KILLS = 6;

describe.skipIf(!engines())('a profile store whose Elasticsearch fails', () => {
  let engine: RunningEngine;
  beforeAll(async () => {
    engine = await ownEngines().elasticsearch.start();
  });
  afterAll(() => engine?.stop());

  const settings = (): string => {
    const made: ElasticsearchSettings = {
      url: engine.url,
      prefix: freshPrefix(),
      retentionMs: RETENTION_MS,
      timeoutMs: TIMEOUT_MS,
    };
    return JSON.stringify(made);
  };
  const open = async (its: string, published = new Published()): Promise<ProfileStore> => {
    const store = await harness.open(its, { publish: published.publish, tidyEveryMs: 250 });
    onTestFinished(() => store.close());
    return store;
  };

  it('is Unavailable soon, returns no partial change, and recovers by itself', async () => {
    const people = new People(await open(settings()));
    // The first write creates the index: on a busy machine that takes longer than a call's timeout.
    const first = { attributes: [attribute('n', 1)], ts: 1 };
    const before = await untilAnswered(() => people.write(['email:a@x', 'cookie:1'], first));
    const other = await untilAnswered(() => people.write(['email:b@x'], { ts: 1 }));
    for (const [stop, start] of [
      [() => engine.pause(), () => engine.resume()],
      [() => engine.kill(), () => engine.restart()],
    ] as const) {
      await stop();
      const startedAt = performance.now();
      const merging = people.write(['cookie:1', 'email:b@x'], { attributes: [attribute('n', 2)], ts: 2 });
      await expect(merging).rejects.toThrow(Unavailable);
      await expect(people.find('email:a@x')).rejects.toThrow(Unavailable);
      await expect(people.delete(['email:a@x'])).rejects.toThrow(Unavailable);
      expect(performance.now() - startedAt).toBeLessThan(6 * TIMEOUT_MS);
      // A store opened during an outage works as soon as the engine answers.
      const late = new People(await open(settings()));
      await expect(late.write(['email:a@x'])).rejects.toThrow(Unavailable);
      await start();
      const made = await untilAnswered(() => late.write(['email:a@x']));
      expect(await untilAnswered(() => late.find('email:a@x'))).toEqual(made);
    }
    const found = await untilAnswered(() => people.search(['email:a@x', 'email:b@x']));
    // An unanswered write may still have been carried out; if so, completely.
    const isMerged = found.length === 1;
    const isDeleted = found.length === 0 || found[0]?.ucid === other.ucid;
    if (isMerged && !isDeleted) expect(treeOf(found[0])).toEqual({ d: { n: 2 } });
    else if (!isDeleted) expect(found).toEqual([before, other]);
    const after = await people.write(['cookie:1', 'email:b@x'], { attributes: [attribute('n', 3)], ts: 3 });
    expect(await people.find('email:b@x')).toEqual(after);
    expect(treeOf(after)).toEqual({ d: { n: 3 } });
  });

  it('reports why its index cannot be created, and recovers once it can', async () => {
    const others = new People(await open(settings()));
    await untilAnswered(() => others.write(['email:a@x']));
    await limitShards(engine.url, 1);
    onTestFinished(() => limitShards(engine.url, null));
    const people = new People(await open(settings()));
    const refusal = () => people.write(['email:a@x']).then(() => 'none', messageOf);
    await expect.poll(refusal).toContain('validation_exception');
    await limitShards(engine.url, null);
    const made = await untilAnswered(() => people.write(['email:a@x']));
    expect(await people.find('email:a@x')).toEqual(made);
  });

  it('keeps every guarantee while writers and the node are killed', async () => {
    const its = settings();
    const traffic: Traffic = {
      scope: { org: 7, region: 'eu' },
      seed: Math.floor(Math.random() * 1_000_000),
      groups: 60,
      identitiesOfGroup: 8,
      deletions: 0.03,
      events: 0.3,
    };
    let isOver = false;
    const killing = (async () => {
      for (let kill = 0; kill < NODE_KILLS && !isOver; kill++) {
        await sleep(1_500 + Math.random() * 8_000);
        await engine.kill();
        await engine.restart();
      }
    })();
    const { lines } = await runWriters({ harness, settings: its, traffic, seesItsWrites: false, ...SIZE });
    isOver = true;
    await killing;
    const published = new Published();
    const store = await open(its, published);
    const all = (): readonly WriterLine[] => [
      ...lines,
      ...published.changes.map(
        ({ kind, ucid, version, linked }) =>
          ({ kind: 'published', change: kind, ucid, version, linked }) as const,
      ),
    ];
    const verdict = async () => ({
      traffic,
      faults: await untilAnswered(() => verdictOn(store, traffic, all())),
    });
    await expect.poll(verdict, { timeout: 60_000, interval: 1_000 }).toEqual({ traffic, faults: [] });
  }, 900_000);
});

/** The maximum number of shards of a node; `null`: the default. */
async function limitShards(url: string, shards: number | null): Promise<void> {
  const { status } = await fetch(`${url}/_cluster/settings`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ persistent: { 'cluster.max_shards_per_node': shards } }),
  });
  expect(status).toBe(200);
}

async function untilAnswered<T>(attempt: () => Promise<T>): Promise<T> {
  while (true) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      await sleep(50);
    }
  }
}
