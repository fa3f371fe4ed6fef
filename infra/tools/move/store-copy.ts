import {
  chunks,
  HEADER,
  type HistoryEntry,
  parseExact,
  parsePosition,
  referencedEventText,
} from '@tributary/core';
import { importDedupeClaims, missingDedupeClaims } from '../../adapters/deduplicator/redis/index.ts';
import type { ExportedDedupeClaim } from '../../adapters/deduplicator/sqlite/index.ts';
import {
  differingFunnelDocuments,
  importFunnelDocuments,
  importFunnelOffsets,
} from '../../adapters/funnel-store/redis/index.ts';
import { dayOf } from '../../adapters/history/sqlite/index.ts';
import type { ExportedProfile } from '../../adapters/profile-store/sqlite/index.ts';
import { compareVolume, importVolume } from '../../adapters/volume-counters/redis/index.ts';
import { storedRecord } from './log-copy.ts';
import type { MoveSource } from './source.ts';
import type { Attempt, MoveTarget } from './target.ts';

/** Items of one call; a profile has a few documents, and one of the funnel has up to some KiB. */
const DEDUPE_CLAIMS = 5_000;
const ENTRIES = 2_000;
const PROFILES = 500;
const DOCUMENTS = 500;

interface StoreCopyTools {
  readonly source: Pick<
    MoveSource,
    'dedupeClaims' | 'reevaluations' | 'volume' | 'funnel' | 'history' | 'profiles' | 'log'
  >;
  readonly target: Pick<MoveTarget, 'redis' | 'profiles' | 'history'>;
  readonly prefix: string;
  readonly attempt: Attempt;
}

/** The numbers in the data folder and on the engines. */
interface Compared {
  readonly here: number;
  readonly there: number;
}

/** One store. */
export interface StorePart {
  /** What it holds, for the report. */
  readonly name: string;
  /** May be repeated. */
  copy(): Promise<void>;
  /** Throws where contents differ. */
  compare(): Promise<Compared>;
}

/** The stores beside the log, in the order in which they are copied. */
export function storeParts(tools: StoreCopyTools): readonly StorePart[] {
  const { source, target, prefix, attempt } = tools;
  const { volume, funnel, history, profiles } = source;
  const { redis } = target;

  function part<Chunk>(
    name: string,
    all: () => Iterable<Chunk>,
    write: (chunk: Chunk) => Promise<void>,
    compare: (chunk: Chunk) => Promise<Compared>,
  ): StorePart {
    return {
      name,
      async copy() {
        for (const chunk of all()) await attempt(`copying ${name}`, () => write(chunk));
      },
      async compare() {
        let [here, there] = [0, 0];
        for (const chunk of all()) {
          const found = await attempt(`comparing ${name}`, () => compare(chunk));
          here += found.here;
          there += found.there;
        }
        return { here, there };
      },
    };
  }

  const claimsPart = (name: string, below: string, claims: (now: number) => Iterable<ExportedDedupeClaim>) =>
    part(
      name,
      () => chunks(claims(Date.now()), DEDUPE_CLAIMS),
      (some) => importDedupeClaims(redis, below, some, Date.now()),
      async (some) => {
        const missing = await missingDedupeClaims(redis, below, some, Date.now());
        return { here: some.length, there: some.length - missing };
      },
    );

  const volumePart = part(
    'counted events',
    () => (volume === undefined ? [] : [volume]),
    (all) => importVolume(redis, prefix, all),
    async (all) => {
      const { expected, found, different } = await compareVolume(redis, prefix, all, Date.now());
      // Numbers that differ and have the same sum are no copy either.
      return { here: expected, there: different > 0 && expected === found ? found - different : found };
    },
  );

  const documentsPart = part(
    'documents of the funnel',
    () => chunks(funnel?.documents(Date.now()) ?? [], DOCUMENTS),
    (some) => importFunnelDocuments(redis, prefix, some),
    async (some) => ({
      here: some.length,
      there: some.length - (await differingFunnelDocuments(redis, prefix, some)),
    }),
  );
  const funnelPart: StorePart = {
    ...documentsPart,
    async copy() {
      await documentsPart.copy();
      // Last: counts below these offsets are not added any more.
      if (funnel !== undefined)
        await attempt('copying the funnel', () => importFunnelOffsets(redis, prefix, funnel.applied()));
    },
  };

  const unpublished = profiles?.unpublished() ?? new Map();
  const documentsOfPart = part(
    'profiles',
    () =>
      pages(
        (row) => profiles?.after(row, PROFILES) ?? [],
        ({ row }) => row,
      ),
    (some) => target.profiles.write(known(some), unpublished),
    async (some) => {
      await target.profiles.compare(known(some), unpublished);
      const live = some.filter(({ kind }) => kind === 'live').length;
      return { here: live, there: live };
    },
  );
  const profilesPart: StorePart = {
    ...documentsOfPart,
    async copy() {
      await attempt('copying profiles', () => target.profiles.begin(Date.now()));
      await documentsOfPart.copy();
    },
  };

  const lastPuts = history?.lastPuts() ?? new Map<number, number>();
  const entriesOf = function* () {
    const next = (number: number) => history?.after(number, ENTRIES) ?? [];
    for (const page of pages(next, ({ number }) => number))
      yield* Map.groupBy(page, ({ entry }) => dayOf(entry.at));
  };
  const historyPart: StorePart = {
    ...part(
      'history entries',
      entriesOf,
      // A period is dropped a retention after the last put into it.
      ([day, some]) =>
        target.history.put(
          some.map(({ entry }) => withItsEvent(entry, source.log)),
          lastPuts.get(day) ?? Date.now(),
        ),
      async () => ({ here: 0, there: 0 }),
    ),
    async compare() {
      let [here, there] = [0, 0];
      for (const { kind, workspaceId, count } of history?.counts() ?? []) {
        here += count;
        there += await attempt('comparing the history', () => target.history.count(kind, workspaceId));
      }
      return { here, there };
    },
  };

  return [
    claimsPart('dedupe claims', prefix, source.dedupeClaims),
    claimsPart('claims of re-evaluations', `${prefix}reevaluated:`, source.reevaluations),
    volumePart,
    funnelPart,
    profilesPart,
    historyPart,
  ];
}

/** `next`: the items after one with a number, in the order of their numbers; none at the end. */
function* pages<T>(
  next: (after: number) => readonly T[],
  numberOf: (item: T) => number,
): Generator<readonly T[]> {
  for (let page = next(0), last = page.at(-1); last !== undefined; last = page.at(-1)) {
    yield page;
    page = next(numberOf(last));
  }
}

/** Without the deletions that cannot be moved. */
function known(some: readonly ExportedProfile[]) {
  return some.filter((one) => one.kind !== 'forgotten');
}

/**
 * A dead delivery with the event that it refers to: most of the log is not copied, and the delivery can be redriven.
 * Unchanged where retention has dropped the event.
 */
function withItsEvent(entry: HistoryEntry, log: MoveSource['log']): HistoryEntry {
  const { kind, facets, body, detail, workspaceId } = entry;
  const { event_at: reference, ...rest } = body as { readonly event_at?: { readonly position: string } };
  const at = reference === undefined ? undefined : parsePosition(reference.position);
  if (kind !== 'delivery' || facets.status !== 'dead' || detail !== undefined || at === undefined)
    return entry;
  const record = storedRecord(log, at);
  if (record?.headers[HEADER.workspaceId] !== workspaceId) return entry;
  const event = parseExact<NonNullable<HistoryEntry['detail']>>(
    referencedEventText({ ...record, position: at }),
  );
  return { ...entry, body: rest as HistoryEntry['body'], detail: { event } };
}
