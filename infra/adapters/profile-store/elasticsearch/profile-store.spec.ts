import {
  type Identity,
  InvalidInput,
  MAX_PROFILE_BOUNDS,
  MAX_SEARCH_RESULT_CHARACTERS,
  NO_LOGGER,
  newId,
  PartialDeletion,
  type ProfileChange,
  type ProfileWrite,
  Unavailable,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import {
  type Documents,
  type DocumentVersion,
  type DocumentWrite,
  publisherId,
  type StoredDocument,
  type WriteResult,
} from './documents.ts';
import { DocumentProfileStore } from './profile-store.ts';

const SCOPE = { org: 1, region: 'eu' } as const;

/** Documents in memory, with failures on demand. */
class MemoryDocuments implements Documents {
  readonly stored = new Map<string, StoredDocument>();
  /** The ids of each read. */
  readonly reads: (readonly string[])[] = [];
  /** The owner of each operation with requests of its own. */
  readonly apart: string[] = [];
  /** Decides whether a write fails. */
  fails: (write: DocumentWrite) => boolean = () => false;
  #seqNo = 0;

  async read(ids: readonly string[]): Promise<readonly (StoredDocument | undefined)[]> {
    this.reads.push(ids);
    return ids.map((id) => this.stored.get(id));
  }

  async write(writes: readonly DocumentWrite[]): Promise<readonly WriteResult[]> {
    if (writes.some(this.fails)) throw new Unavailable('nobody answers');
    return writes.map(({ id, expected, source }) => {
      const before = this.stored.get(id)?.version.seqNo;
      if (before !== (expected === 'absent' ? undefined : expected.seqNo)) return 'conflict';
      const version: DocumentVersion = { seqNo: ++this.#seqNo, primaryTerm: 1 };
      if (source === 'removed') this.stored.delete(id);
      else this.stored.set(id, { version, source });
      return version;
    });
  }

  apartFor(owner: string): Pick<Documents, 'read' | 'write'> {
    this.apart.push(owner);
    return { read: (ids) => this.read(ids), write: (writes) => this.write(writes) };
  }

  async find(): Promise<readonly string[]> {
    return [];
  }

  async holdsLive(): Promise<boolean> {
    return this.stored.size > 0;
  }
}

function setUp(publish: (changes: readonly ProfileChange[]) => Promise<void> = async () => {}) {
  const documents = new MemoryDocuments();
  const open = () =>
    new DocumentProfileStore({
      documents,
      publish,
      clock: () => 1_000_000,
      pause: () => new Promise((resolve) => setImmediate(resolve)),
      random: () => 0.5,
      newUcid: newId,
      logger: NO_LOGGER,
      retentionMs: 3_600_000,
    });
  return { documents, store: open(), open };
}

const userOf = (n: number): Identity => ({ type: 'user_id', value: `u${n}` });

function writeOf(n: number, value: string): ProfileWrite {
  // One value may have a quarter of a profile's bytes.
  const pieces = value.match(/.{1,200000}/g) ?? [];
  const attributes = pieces.map((piece, at) => ({ path: ['d', `text${at}`], value: piece }));
  const bounds = MAX_PROFILE_BOUNDS;
  const values = { attributes, preferences: [], consents: [] };
  return { ...SCOPE, identities: [userOf(n)], ...values, linking: 'merge', bounds };
}

const searchFor = (count: number) => ({
  org: SCOPE.org,
  regions: [SCOPE.region],
  identities: Array.from({ length: count }, (_, n) => userOf(n)),
  ucids: [],
});

describe('a profile store on documents', () => {
  it('stops reading when a search finds more than it may, and rejects it', async () => {
    const { documents, store, open } = setUp();
    const text = 'x'.repeat(900_000);
    for (let n = 0; n < 100; n++) await store.upsert(writeOf(n, text));
    for (const searching of [store, open()]) {
      documents.reads.length = 0;
      await expect(searching.search(searchFor(100))).rejects.toThrow(InvalidInput);
      const asked = documents.reads.flat().filter((id) => id.startsWith('p:'));
      expect(asked.length * text.length).toBeLessThan(2.5 * MAX_SEARCH_RESULT_CHARACTERS);
      expect(await searching.search(searchFor(30))).toHaveLength(30);
    }
  });

  it('gives an organization that rewrites large profiles requests of its own, and no other', async () => {
    const { documents, store } = setUp();
    await store.upsert(writeOf(0, 'x'.repeat(900_000)));
    await store.upsert(writeOf(0, 'short'));
    await store.upsert({ ...writeOf(0, 'short'), org: 2 });
    expect(documents.apart).toEqual(['1']);
  });

  it('reports which records an interrupted deletion has deleted', async () => {
    const { documents, store } = setUp();
    const ucids: string[] = [];
    for (let n = 0; n < 3; n++) {
      const outcome = await store.upsert(writeOf(n, 'short'));
      if (outcome.kind === 'written') ucids.push(outcome.profile.ucid);
    }
    documents.fails = ({ id }) => id === `p:${ucids[1]}`;
    const deletion = { org: 1, regions: ['eu'], identities: [0, 1, 2, 9].map(userOf), ucids: [] };
    const failure = await store.delete(deletion).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(PartialDeletion);
    expect(failure).toMatchObject({ outcome: { deleted: [ucids[0], ucids[2]], notFound: [3] } });
    documents.fails = () => false;
    expect(await store.delete(deletion)).toEqual({ deleted: [ucids[1]], notFound: [0, 2, 3] });
  });

  it('leaves its publisher alive when it closes with unpublished changes', async () => {
    for (const isBroken of [false, true]) {
      const { documents, store } = setUp(async () => {
        if (isBroken) throw new Unavailable('the log does not answer');
      });
      await store.upsert(writeOf(1, 'short'));
      await store.close();
      const publishers = [...documents.stored].filter(([id]) => id.startsWith(publisherId('')));
      const aliveAt = publishers.map(([, { source }]) => source.updated_ts);
      expect(aliveAt).toEqual([isBroken ? 1_000_000 : 0]);
    }
  });

  it('published a long profile again for each small write to it: those that wait are one', async () => {
    const published: ProfileChange[] = [];
    const gate = Promise.withResolvers<void>();
    const { documents, store } = setUp(async (changes) => {
      await gate.promise;
      published.push(...changes);
    });
    await store.upsert(writeOf(0, 'x'.repeat(100_000)));
    await store.upsert(writeOf(1, 'short'));
    for (let n = 0; n < 30; n++) await store.upsert(writeOf(0, `${n}${'y'.repeat(100_000)}`));
    gate.resolve();
    await expect.poll(() => published.length).toBe(3);
    const [first, last] = published.filter(({ ucid }) => ucid === published[0]?.ucid);
    expect(last?.version).toBe((first?.version ?? 0) + 30);
    await store.close();
    // Nothing is left to the sweeper.
    const publishers = [...documents.stored].filter(([id]) => id.startsWith(publisherId('')));
    expect(publishers.map(([, { source }]) => source.updated_ts)).toEqual([0]);
  });

  it('bounds a group of writes of a long profile', async () => {
    const { documents, store } = setUp();
    await store.upsert(writeOf(1, 'x'.repeat(600_000)));
    const version = () =>
      JSON.parse([...documents.stored].find(([id]) => id.startsWith('p:'))?.[1].source.body ?? '');
    const before = documents.reads.length;
    const writes = Array.from({ length: 12 }, (_, n) => ({
      ...writeOf(1, 'unused'),
      attributes: [{ path: ['d', `n${n}`], value: n }],
    }));
    await Promise.all(writes.map((write) => store.upsert(write)));
    expect(version().profile.attributes).toHaveLength(15);
    expect(documents.reads.length - before).toBeGreaterThanOrEqual(4);
  });
});
