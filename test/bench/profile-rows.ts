import {
  applyWrite,
  freshProfile,
  newId,
  type Profile,
  type ProfileStore,
  type ProfileWrite,
} from '@tributary/core';
import { type BenchRow, median, percentile, perSecond } from './table.ts';
import { usageSince } from './usage.ts';

const CALLERS = 64;
const UPSERT_BAR = 0.5;
const SEARCH_BAR = 0.6;
const SEARCH_P99_BAR_MS = 20;
const HOT_BAR = 0.5;
/** Concurrent writes while the profiles are filled in. */
const FILLING = 4_000;

/** Calls of the engine alone, on as many documents of the same size and through the same shared calls. */
export interface BareDocuments {
  /** Reads the `n`th document and writes it back, changed. */
  update(n: number): Promise<void>;
  read(n: number): Promise<void>;
}

export interface ProfileRowsOptions {
  /** Part of the row's title, e.g. "on SQLite". */
  readonly engine: string;
  /** Of the engine, where it is a process of its own. */
  readonly enginePid?: number;
  readonly store: ProfileStore;
  readonly bare: BareDocuments;
  /** Stores many profiles at once, where single writes take too long. */
  readonly fill?: (profiles: readonly Profile[]) => Promise<void>;
  /** Resolves once no work is left from filling in. */
  readonly settled?: () => Promise<void>;
  /** Number of profiles when the first row begins. */
  readonly stored: number;
  readonly rounds: number;
  readonly seconds: number;
}

interface Run {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  /** Processor time of each call, by process. */
  readonly used: string;
}

type Call = () => Promise<void>;

/** Writes and searches of profiles by 64 callers, each against its cost on the engine alone. */
export async function profileRows(options: ProfileRowsOptions): Promise<readonly BenchRow[]> {
  const { engine, store, bare, stored } = options;
  const filledPerSecond = await (options.fill === undefined
    ? fill(store, stored)
    : fillAtOnce(options.fill, stored));
  await options.settled?.();
  let [time, made] = [stored, stored];
  const anyone = () => Math.floor(Math.random() * stored);
  const update = (n: number) =>
    upsert(store, { ...benchWrite(n, ++time), identities: identitiesOf(n).slice(0, 1) });
  const create = () => upsert(store, benchWrite(made++, ++time));
  const search = async (n: number) => {
    const found = await store.search({ ...SEARCH, identities: identitiesOf(n).slice(0, 1), ucids: [] });
    if (found.length !== 1) throw new Error(`user ${n} has ${found.length} profiles`);
  };
  const scale = `${stored.toLocaleString('en')} profiles ${engine}`;
  const pair = (call: Call, baseline: Call) => pairs(options, call, baseline);
  const existing = await pair(
    () => update(anyone()),
    () => bare.update(anyone()),
  );
  const fresh = await pair(
    () => create(),
    () => bare.update(anyone()),
  );
  const searched = await pair(
    () => search(anyone()),
    () => bare.read(anyone()),
  );
  const hot = await pair(
    () => update(0),
    () => update(anyone()),
  );
  return [
    row(`upsert of existing ones, ${scale}`, existing, 'read and write of one document', {
      bar: `>= ${UPSERT_BAR}`,
      holds: existing.ratio >= UPSERT_BAR,
    }),
    row(`upsert of new ones, two identities, ${scale}`, fresh, 'read and write of one document', {
      bar: '-',
      holds: null,
      note: `filled at ${perSecond(filledPerSecond)}${options.fill === undefined ? '' : ', in bulk'}`,
    }),
    row(`search by one identity, ${scale}`, searched, 'read of one document', {
      bar: `>= ${SEARCH_BAR}, p99 < ${SEARCH_P99_BAR_MS} ms`,
      holds: searched.ratio >= SEARCH_BAR && searched.figure.p99 < SEARCH_P99_BAR_MS,
    }),
    row(`upsert of one hot profile, ${scale}`, hot, 'of different ones', {
      bar: `>= ${HOT_BAR}`,
      holds: hot.ratio >= HOT_BAR,
    }),
  ];
}

interface Pairs {
  readonly figure: Run;
  readonly baseline: Run;
  readonly ratio: number;
}

function row(
  path: string,
  { figure, baseline, ratio }: Pairs,
  against: string,
  verdict: { readonly bar: string; readonly holds: boolean | null; readonly note?: string },
): BenchRow {
  const spread = ({ p50, p99 }: Run) => `p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`;
  return {
    path,
    figure: `${perSecond(figure.perSecond)}, ${spread(figure)}`,
    baseline: `${against} ${perSecond(baseline.perSecond)}, ${spread(baseline)}`,
    ratio,
    ...verdict,
    note: [verdict.note ?? [], `processor time of each: ${figure.used}`].flat().join('; '),
  };
}

/** Both in alternation; the first round warms up. */
async function pairs(options: ProfileRowsOptions, call: Call, baseline: Call): Promise<Pairs> {
  const [figures, baselines]: [Run[], Run[]] = [[], []];
  for (let round = 0; round <= options.rounds; round++) {
    const [one, other] = [await run(call, options), await run(baseline, options)];
    if (round === 0) continue;
    figures.push(one);
    baselines.push(other);
  }
  const of = (runs: readonly Run[]): Run => ({
    perSecond: median(runs.map((each) => each.perSecond)),
    p50: median(runs.map(({ p50 }) => p50)),
    p99: median(runs.map(({ p99 }) => p99)),
    used: runs.at(-1)?.used ?? '',
  });
  const ratio = median(
    figures.map((figure, n) => figure.perSecond / (baselines[n]?.perSecond ?? Number.NaN)),
  );
  return { figure: of(figures), baseline: of(baselines), ratio };
}

async function run(call: Call, { seconds, enginePid }: ProfileRowsOptions): Promise<Run> {
  const waits: number[] = [];
  const used = usageSince({
    'callers and store': process.pid,
    ...(enginePid === undefined ? {} : { engine: enginePid }),
  });
  const startedAt = performance.now();
  const end = startedAt + seconds * 1_000;
  await Promise.all(
    Array.from({ length: CALLERS }, async () => {
      for (let before = performance.now(); before < end; before = performance.now()) {
        await call();
        waits.push(performance.now() - before);
      }
    }),
  );
  const took = (performance.now() - startedAt) / 1_000;
  return {
    perSecond: waits.length / took,
    p50: percentile(waits, 0.5),
    p99: percentile(waits, 0.99),
    used: used(waits.length),
  };
}

/** A stored profile of the bench, of an organization that is not measured. */
export async function sampleProfile(store: ProfileStore): Promise<Profile> {
  const outcome = await store.upsert({ ...benchWrite(0, 1), org: 2 });
  if (outcome.kind === 'refused') throw new Error(outcome.reason);
  return outcome.profile;
}

const SEARCH = { org: 1, regions: ['eu'] };

async function fill(store: ProfileStore, count: number): Promise<number> {
  const startedAt = performance.now();
  let next = 0;
  await Promise.all(
    Array.from({ length: FILLING }, async () => {
      for (let n = next++; n < count; n = next++) await upsert(store, benchWrite(n, 1));
    }),
  );
  return (count * 1_000) / (performance.now() - startedAt);
}

async function fillAtOnce(
  store: (profiles: readonly Profile[]) => Promise<void>,
  count: number,
): Promise<number> {
  const startedAt = performance.now();
  for (let n = 0; n < count; n += FILLING) {
    const writes = Array.from({ length: Math.min(FILLING, count - n) }, (_, at) => benchWrite(n + at, 1));
    await store(writes.map(profileOf));
  }
  return (count * 1_000) / (performance.now() - startedAt);
}

function profileOf(write: ProfileWrite): Profile {
  const applied = applyWrite([freshProfile(write, newId(), 1)], write.identities, write, 1);
  if (applied.kind === 'refused') throw new Error(applied.reason);
  return applied.profile;
}

async function upsert(store: ProfileStore, write: ProfileWrite): Promise<void> {
  const outcome = await store.upsert(write);
  if (outcome.kind === 'refused') throw new Error(outcome.reason);
}

function identitiesOf(n: number) {
  return [
    { type: 'user_id', value: `user-${n}` },
    { type: 'email', value: `user-${n}@example.com` },
  ];
}

/** A customer of a shop, about 1 KB when stored. */
function benchWrite(n: number, ts: number): ProfileWrite {
  const traits = {
    name: `Customer Number ${n}`,
    city: 'Utrecht',
    plan: n % 3 === 0 ? 'gold' : 'basic',
    orders: ts,
    last_seen: ts,
    newsletter: n % 2 === 0,
  };
  return {
    org: 1,
    region: 'eu',
    identities: identitiesOf(n),
    attributes: Object.entries(traits).map(([name, value]) => ({ path: ['traits', name], value })),
    preferences: [{ name: 'mail', value: { type: 'mail', value: 'yes' } }],
    consents: [{ name: 'terms', value: 'yes' }],
    ts,
    linking: 'merge',
  };
}
