import { type CanonicalEvent, Unavailable } from '@tributary/core';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { noEngine } from '../../../connector/suite/harness.ts';
import { signal, TestLoader, track } from '../../suite/harness.ts';
import { profileChange } from '../../suite/profiles.ts';
import { warehouseConformance } from '../../suite/warehouse.conformance.ts';
import { icebergHarness } from './harness.ts';
import { findIceberg, judged, startCompaction, startRealCatalog } from './installed.ts';

const EVENTS = 200_000;
const BATCH = 10_000;
const NAMES = 60;
/** Pieces of maintenance: each merges the files of a table. */
const PIECES = 5;
const DEADLINE_MS = 20 * 60_000;

const installed = findIceberg();
if (installed === undefined)
  console.warn("NO ICEBERG, its tests are SKIPPED: bash -c '. .ci/engines && . .ci/iceberg'");
const server = installed === undefined ? undefined : await startRealCatalog(installed);

describe.skipIf(server === undefined && process.env.CI === undefined)("on Iceberg's own REST catalog", () => {
  afterAll(() => server?.stop());

  it('is installed', () => {
    expect(server, 'Iceberg is not there: bash .ci/iceberg').toBeDefined();
  });

  warehouseConformance('lake of Iceberg', () =>
    server === undefined ? noEngine('Iceberg') : icebergHarness(server.catalog),
  );

  it(
    'has each of 200,000 events once for pyiceberg and DuckDB, with lost answers and a compaction beside',
    async () => {
      if (server === undefined || installed === undefined) return noEngine('Iceberg');
      const harness = await icebergHarness(server.catalog);
      onTestFinished(() => harness.close());
      let [commits, others] = [0, 0];
      harness.decide((method, path) => {
        // A load has some 250 requests, and is begun again where one of those that read is refused.
        if (method === 'GET') return ++others % 1_499 === 0 ? 'refused' : 'answered';
        if (!path.includes('/tables/')) return 'answered';
        commits += 1;
        if (commits % 89 === 0) return '503';
        return commits % 97 === 0 ? 'lost' : 'answered';
      });
      const compaction = startCompaction(installed, server.catalog, harness.namespace);
      onTestFinished(() => compaction.stop());
      const byTable = new Map<string, number>();
      for (let from = 0, seq = 1; from < EVENTS; from += BATCH, seq++) {
        const events = Array.from({ length: BATCH }, (_, at) => eventOf(from + at));
        for (const { event } of events) byTable.set(String(event), (byTable.get(String(event)) ?? 0) + 1);
        await loadedThroughFaults(harness, events, seq);
      }
      await compaction.stop();
      expect(compaction.commits()).toBeGreaterThan(0);
      harness.decide(() => 'answered');
      const last = harness.open();
      for (let piece = 0; piece < PIECES; piece++) await last.maintain?.(signal);
      const { counts, differing } = await judged(installed, server.catalog, harness.namespace, harness.judge);
      expect(differing).toEqual([]);
      expect(counts.tracks).toBe(EVENTS);
      for (const [name, count] of byTable) expect(counts[name.toLowerCase().replace(' ', '_')]).toBe(count);
      const tracks = (await harness.relation('tracks')) ?? '';
      expect(await harness.judge.query(`select count(distinct id)::int as n from ${tracks}`)).toEqual([
        { n: EVENTS },
      ]);
      expect(counts.users).toBe(EVENTS / BATCH);
      expect(counts.discards).toBe(0);
    },
    DEADLINE_MS,
  );
});

/** Events with changing shapes, a second between two batches. */
function eventOf(n: number): CanonicalEvent {
  const batch = Math.floor(n / BATCH);
  const properties = {
    n: batch < 6 ? n : n + 0.5,
    [`p${n % 7}`]: batch % 9 === 8 ? `text ${n}` : n,
    list: [n],
    at: '2026-01-01T00:00:00.123Z',
  };
  const received_at = new Date(Date.parse('2026-11-30T00:00:00Z') + n).toISOString();
  return track(`Name ${n % NAMES}`, properties, { message_id: `m-${n}`, received_at });
}

/** As loaders that are killed and started again: after an unknown result the ledger decides. */
async function loadedThroughFaults(
  harness: Awaited<ReturnType<typeof icebergHarness>>,
  events: readonly CanonicalEvent[],
  seq: number,
) {
  const changes = [profileChange(`U${seq}`, 1, { seq }, [`user-${seq}`])];
  for (;;) {
    const loader = new TestLoader(harness.open());
    try {
      if ((await loader.warehouse.newest('live', signal))?.seq === seq) return;
      await loader.load(events, { seq, changes });
      return;
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
    } finally {
      await loader.warehouse.close();
    }
  }
}
