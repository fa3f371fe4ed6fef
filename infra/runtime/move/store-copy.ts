import { chunks, type Logger } from '@tributary/core';
import type { ExportedDedupeClaim } from '../../adapters/deduplicator/sqlite/index.ts';
import { dayOf } from '../../adapters/history/sqlite/index.ts';
import type { ExportedProfile } from '../../adapters/profile-store/sqlite/index.ts';
import { startDeadline, untilAvailable } from '../process/await-engines.ts';
import type { MoveSource } from './source.ts';
import type { MoveProgress, MoveTarget } from './target.ts';

/** Dedupe claims and entries of one call, and profiles, which have a few documents each. */
const DEDUPE_CLAIMS = 5_000;
const ENTRIES = 2_000;
const PROFILES = 500;
/** Documents of the funnel; each has up to some KiB. */
const DOCUMENTS = 500;

/** Progress of a part that is copied from its beginning if it was not copied to its end. */
const DONE = 1;

export interface StoreCopyTools {
  readonly source: Pick<
    MoveSource,
    'dedupeClaims' | 'reevaluations' | 'volume' | 'funnel' | 'history' | 'profiles'
  >;
  readonly target: Pick<MoveTarget, 'redis' | 'profiles' | 'history'>;
  readonly progress: MoveProgress;
  readonly prefix: string;
  readonly startTimeoutMs: number;
  readonly logger: Logger;
}

/** The copied and the compared numbers of one store, for the report. */
export interface StorePart {
  readonly name: string;
  copy(): Promise<void>;
  /** The numbers in the data folder and on the engines. Throws where contents differ. */
  compare(): Promise<{ readonly here: number; readonly there: number }>;
}

/** The stores beside the log, in the order in which they are copied. Each copy may be repeated. */
export function storeParts(tools: StoreCopyTools): readonly StorePart[] {
  const { source, prefix } = tools;
  return [
    dedupeClaimsPart('dedupe claims', prefix, source.dedupeClaims, tools),
    dedupeClaimsPart('claims of re-evaluations', `${prefix}reevaluated:`, source.reevaluations, tools),
    countsPart(tools),
    funnelPart(tools),
    profilesPart(tools),
    historyPart(tools),
  ];
}

function dedupeClaimsPart(
  name: string,
  prefix: string,
  claims: (now: number) => Iterable<ExportedDedupeClaim>,
  tools: StoreCopyTools,
): StorePart {
  const { redis } = tools.target;
  const { progress } = tools;
  const load = () => import('../../adapters/deduplicator/redis/index.ts');
  return {
    name,
    async copy() {
      const { importDedupeClaims } = await load();
      if ((await attempt(tools, `copying ${name}`, () => progress.of(name))) === DONE) return;
      for (const chunk of chunks(claims(Date.now()), DEDUPE_CLAIMS))
        await attempt(tools, `copying ${name}`, () => importDedupeClaims(redis, prefix, chunk, Date.now()));
      await attempt(tools, `copying ${name}`, () => progress.set(name, DONE));
    },
    async compare() {
      const { missingDedupeClaims } = await load();
      let [here, missing] = [0, 0];
      for (const chunk of chunks(claims(Date.now()), DEDUPE_CLAIMS)) {
        here += chunk.length;
        missing += await attempt(tools, `comparing ${name}`, () =>
          missingDedupeClaims(redis, prefix, chunk, Date.now()),
        );
      }
      return { here, there: here - missing };
    },
  };
}

function countsPart(tools: StoreCopyTools): StorePart {
  const { redis } = tools.target;
  const { volume } = tools.source;
  const load = () => import('../../adapters/volume-counters/redis/index.ts');
  return {
    name: 'counted events',
    async copy() {
      const { importVolume } = await load();
      if (volume !== undefined)
        await attempt(tools, 'copying the counts', () => importVolume(redis, tools.prefix, volume));
    },
    async compare() {
      const { compareVolume } = await load();
      if (volume === undefined) return { here: 0, there: 0 };
      const { expected, found, different } = await attempt(tools, 'comparing the counts', () =>
        compareVolume(redis, tools.prefix, volume, Date.now()),
      );
      // Numbers that differ and have the same sum are no copy either.
      return { here: expected, there: different > 0 && expected === found ? found - different : found };
    },
  };
}

function funnelPart(tools: StoreCopyTools): StorePart {
  const { redis } = tools.target;
  const { funnel } = tools.source;
  const load = () => import('../../adapters/funnel-store/redis/index.ts');
  return {
    name: 'documents of the funnel',
    async copy() {
      const { importFunnelDocuments, importFunnelOffsets } = await load();
      if (funnel === undefined) return;
      for (const chunk of chunks(funnel.documents(Date.now()), DOCUMENTS))
        await attempt(tools, 'copying the funnel', () => importFunnelDocuments(redis, tools.prefix, chunk));
      await attempt(tools, 'copying the funnel', () =>
        importFunnelOffsets(redis, tools.prefix, funnel.applied()),
      );
    },
    async compare() {
      const { differingFunnelDocuments } = await load();
      let [here, differing] = [0, 0];
      for (const chunk of chunks(funnel?.documents(Date.now()) ?? [], DOCUMENTS)) {
        here += chunk.length;
        differing += await attempt(tools, 'comparing the funnel', () =>
          differingFunnelDocuments(redis, tools.prefix, chunk),
        );
      }
      return { here, there: here - differing };
    },
  };
}

function profilesPart(tools: StoreCopyTools): StorePart {
  const { progress, target } = tools;
  const { profiles } = tools.source;
  return {
    name: 'profiles',
    async copy() {
      if (profiles === undefined) return;
      const unpublished = profiles.unpublished();
      await attempt(tools, 'copying profiles', () => target.profiles.begin(Date.now()));
      for (let row = await attempt(tools, 'copying profiles', () => progress.of('profiles')); ; ) {
        const some = profiles.after(row, PROFILES);
        const last = some.at(-1);
        if (last === undefined) return;
        await attempt(tools, 'copying profiles', async () => {
          await target.profiles.write(known(some), unpublished);
          await progress.set('profiles', last.row);
        });
        row = last.row;
      }
    },
    async compare() {
      if (profiles === undefined) return { here: 0, there: 0 };
      const unpublished = profiles.unpublished();
      let [row, live, there] = [0, 0, 0];
      for (let some = profiles.after(row, PROFILES); some.length > 0; some = profiles.after(row, PROFILES)) {
        const page = some;
        await attempt(tools, 'comparing profiles', () => target.profiles.compare(known(page), unpublished));
        there += page.filter(({ kind }) => kind === 'live').length;
        row = page.at(-1)?.row ?? row;
      }
      live = profiles.counts().live;
      return { here: live, there };
    },
  };
}

/** Without the deletions that cannot be moved. */
function known(some: readonly ExportedProfile[]) {
  return some.filter((one) => one.kind !== 'forgotten');
}

function historyPart(tools: StoreCopyTools): StorePart {
  const { progress, target } = tools;
  const { history } = tools.source;
  return {
    name: 'history entries',
    async copy() {
      if (history === undefined) return;
      const lastPuts = history.lastPuts();
      for (let number = await attempt(tools, 'copying the history', () => progress.of('history')); ; ) {
        const some = history.after(number, ENTRIES);
        const last = some.at(-1);
        if (last === undefined) return;
        // A period is dropped a retention after the last put into it.
        for (const [day, of] of Map.groupBy(some, ({ entry }) => dayOf(entry.at)))
          await attempt(tools, 'copying the history', () =>
            target.history.put(
              of.map(({ entry }) => entry),
              lastPuts.get(day) ?? Date.now(),
            ),
          );
        await attempt(tools, 'copying the history', () => progress.set('history', last.number));
        number = last.number;
      }
    },
    async compare() {
      let [here, there] = [0, 0];
      for (const { kind, workspaceId, count } of history?.counts() ?? []) {
        here += count;
        there += await attempt(tools, 'comparing the history', () => target.history.count(kind, workspaceId));
      }
      return { here, there };
    },
  };
}

function attempt<T>(
  { startTimeoutMs, logger }: StoreCopyTools,
  what: string,
  work: () => Promise<T>,
): Promise<T> {
  return untilAvailable(what, startDeadline(startTimeoutMs, logger), work);
}
