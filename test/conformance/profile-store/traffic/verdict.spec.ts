import type { ProfileStore } from '@tributary/core';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { WriterLine } from '../programs/writer.ts';
import { harness } from '../sqlite/harness.ts';
import { operationOf, type Traffic } from './operations.ts';
import { verdictOn } from './verdict.ts';

const TRAFFIC: Traffic = {
  scope: { org: 1, region: 'eu' },
  seed: 5,
  groups: 3,
  identitiesOfGroup: 4,
  deletions: 0.1,
  events: 0.3,
};
const OPERATIONS = 60;

/** The verdict on killed writers, for a run in which nothing went wrong and for the same run misreported. */
describe('the verdict on writers', () => {
  let dispose: () => Promise<void>;
  let store: ProfileStore;
  const lines: WriterLine[] = [];

  beforeAll(async () => {
    const installation = await harness.create(60_000);
    dispose = installation.dispose;
    store = await harness.open(installation.settings, {
      async publish(changes) {
        for (const { kind, ucid, version, linked } of changes)
          lines.push({ kind: 'published', change: kind, ucid, version, linked });
      },
    });
    for (let n = 0; n < OPERATIONS; n++) {
      const operation = operationOf(TRAFFIC, 0, n);
      if (operation.kind === 'delete') {
        const { deleted } = await store.delete(operation.deletion);
        lines.push({ kind: 'deleted', writer: 0, n, ucids: deleted });
      } else if (operation.kind === 'write') {
        const outcome = await store.upsert(operation.write);
        if (outcome.kind === 'refused') throw new Error(outcome.reason);
        const { profile, leftOut } = outcome;
        lines.push({ kind: 'written', writer: 0, n, ucid: profile.ucid, leftOut: leftOut.length });
      }
    }
    await vi.waitFor(async () => expect(await verdictOn(store, TRAFFIC, lines)).toEqual([]), 60_000);
  });
  afterAll(async () => {
    await store?.close();
    await dispose?.();
  });

  const faults = (changed: (lines: readonly WriterLine[]) => readonly WriterLine[]) =>
    verdictOn(store, TRAFFIC, changed(lines));
  const written = () => lines.filter((line) => line.kind === 'written');
  const lastWritten = () => {
    const last = written().at(-1);
    if (last === undefined) throw new Error('nothing was written');
    return last;
  };

  it('has nothing against a run in which nothing went wrong', async () => {
    expect(lines.some((line) => line.kind === 'deleted' && line.ucids.length > 0)).toBe(true);
    expect(lines.some((line) => line.kind === 'published' && line.change === 'merged')).toBe(true);
    expect(lines.some((line) => line.kind === 'written' && line.leftOut > 0)).toBe(true);
    expect(await faults((all) => all)).toEqual([]);
  });

  it('misses a write that was answered and not done', async () => {
    const { ucid } = lastWritten();
    const never: WriterLine[] = Array.from({ length: 40 }, (_, n) => n + OPERATIONS)
      .filter((n) => operationOf(TRAFFIC, 0, n).kind === 'write')
      .map((n) => ({ kind: 'written', writer: 0, n, ucid, leftOut: 0 }));
    const found = await faults((all) => [...all, ...never]);
    expect(found).toContainEqual(expect.stringMatching(/lost attribute/));
    expect(found).toContainEqual(expect.stringMatching(/lost \d identities/));
    expect(found).toContainEqual(expect.stringMatching(/mixed category/));
  });

  it('sees a value that no answered write explains', async () => {
    const left = await faults((all) => all.filter((line) => line.kind !== 'written' || line.n % 2 === 0));
    expect(left).toContainEqual(expect.stringMatching(/ has .* as (attribute|consent|preference) .*, not /));
  });

  it('misses a ucid that leads to nothing and was not deleted', async () => {
    const found = await faults((all) =>
      all.filter((line) => line.kind !== 'published' || line.change !== 'deleted'),
    );
    expect(found).toContainEqual(expect.stringMatching(/leads to nothing/));
  });

  it('misses the last change of a profile that was not published', async () => {
    const { ucid } = lastWritten();
    const found = await faults((all) =>
      all.filter((line) => line.kind !== 'published' || line.ucid !== ucid),
    );
    expect(found).toContainEqual(expect.stringMatching(/published is undefined/));
  });

  it('passes on the observation of a writer', async () => {
    expect(await faults((all) => [...all, { kind: 'broken', what: 'seen' }])).toEqual(['seen']);
  });
});
