import {
  applyFact,
  CatalogState,
  type Fact,
  type HealthReport,
  NO_LOGGER,
  NO_METRICS,
  Unavailable,
  type Verdict,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { quietReport } from '../deliveries.fixture.ts';
import { HealthAlerts } from './alert.ts';
import type { DestinationReport } from './reporter.ts';

const LIMITS = { badAfterMs: 10_000, wellAfterMs: 3_000, everyMs: 3_600_000, waitingMs: 60_000 };
const from = { address: '', request_id: '' };
const at = '2026-01-01T00:00:00.000Z';

/** Processes that deliver to the destination `d`, with one catalog and one board. */
function setUp(fields: { readonly enabled?: boolean; readonly paused?: boolean } = {}) {
  const time = { now: 1_000_000 };
  const state = new CatalogState();
  const facts: Fact[] = [];
  const away = { catalog: false, board: false };
  const board = new Map<string, HealthReport>();
  const warned: string[] = [];
  const add = (fact: Fact): Verdict => {
    facts.push(fact);
    return applyFact(state, fact, facts.length - 1);
  };
  const workspace = { id: 'w', name: 'w', organization_id: 'o', region: 'eu', status: 'active' } as const;
  const organization = { id: 'o', name: 'o', regions: ['eu'], notification_email: null };
  add({ v: 1, type: 'workspace.created', entity: 'w', data: { workspace, organization }, by: 'a', from, at });
  const settled = { enabled: true, paused: false, ...fields };
  const destination = { id: 'd', workspace_id: 'w', name: 'd', type: 't', settings: {}, created_by: 'a' };
  add({
    v: 1,
    type: 'destination.created',
    entity: 'd',
    data: { ...destination, ...settled },
    by: 'a',
    from,
    at,
  });

  const processOf = (process: string) => {
    const watch = new HealthAlerts(
      {
        catalog: {
          async propose(fact) {
            if (away.catalog) throw new Unavailable('away');
            return add(fact);
          },
        },
        healthBoard: {
          async read() {
            if (away.board) throw new Unavailable('away');
            return [...board.values()];
          },
        },
        process,
        limits: LIMITS,
        current: (id) => state.destination(id),
        clock: () => time.now,
        elapsed: () => time.now,
        logger: { ...NO_LOGGER, warn: (_fields, message) => void warned.push(message) },
        metrics: NO_METRICS,
      },
      () => [],
    );
    return {
      evaluate(report: Partial<DestinationReport>) {
        const full = reportAt(time.now, report);
        board.set(process, { ...full, workspace_id: 'w', process });
        return watch.evaluate([full]);
      },
    };
  };
  return {
    processOf,
    away,
    warned,
    pass: (ms: number) => {
      time.now += ms;
    },
    turns: () => facts.flatMap((fact) => (fact.type === 'destination.turned' ? [fact.data.state] : [])),
    lastTurn: () => facts.findLast((fact) => fact.type === 'destination.turned'),
    condition: () => state.destination('d')?.condition,
  };
}

const reportAt = (now: number, fields: Partial<DestinationReport>) =>
  quietReport('d', { at: now, ...fields });

const FAILING = {
  retry: 5,
  last_errors: [{ at: 0, outcome: 'retry', reason: 'answered 503', status: 503 }],
} as const;
const FINE = { delivered: 5 };

describe('a destination', () => {
  it('turns bad when it did badly for long enough, and well likewise, each once', async () => {
    const { processOf, pass, turns, lastTurn } = setUp();
    const { evaluate } = processOf('one');
    await evaluate(FAILING);
    pass(9_999);
    await evaluate(FAILING);
    expect(turns()).toEqual([]);
    pass(1);
    await evaluate(FAILING);
    expect(lastTurn()?.data).toMatchObject({
      state: 'bad',
      because: 'failing',
      since: new Date(1_000_000).toISOString(),
      failed_per_second: 5,
      last_errors: [{ reason: 'answered 503', status: 503 }],
    });
    pass(60_000);
    await evaluate(FAILING);
    await evaluate(FINE);
    pass(3_000);
    await evaluate(FINE);
    await evaluate(FINE);
    expect(turns()).toEqual(['bad', 'well']);
  });

  it('that succeeded in between starts again', async () => {
    const { processOf, pass, turns } = setUp();
    const { evaluate } = processOf('one');
    await evaluate(FAILING);
    pass(9_000);
    await evaluate(FINE);
    await evaluate(FAILING);
    pass(9_000);
    await evaluate(FAILING);
    expect(turns()).toEqual([]);
  });

  it('that two processes report as bad at the same time changes its health once', async () => {
    const { processOf, pass, turns, condition } = setUp();
    const [one, two] = [processOf('one'), processOf('two')];
    await Promise.all([one.evaluate(FAILING), two.evaluate(FAILING)]);
    pass(10_000);
    await Promise.all([one.evaluate(FAILING), two.evaluate(FAILING)]);
    expect(condition()?.turns).toBe(1);
    pass(1_000);
    await Promise.all([one.evaluate(FAILING), two.evaluate(FAILING)]);
    expect(condition()?.turns).toBe(1);
    expect(new Set(turns())).toEqual(new Set(['bad']));
  });

  it('that most processes deliver to is not bad because one of them cannot', async () => {
    const { processOf, pass, turns } = setUp();
    const [one, two] = [processOf('one'), processOf('two')];
    for (const _ of [1, 2, 3]) {
      await two.evaluate({ delivered: 50 });
      await one.evaluate(FAILING);
      pass(6_000);
    }
    expect(turns()).toEqual([]);
  });

  it('stays bad while another live process reports failures; reports of a stopped process do not count', async () => {
    const { processOf, pass, turns } = setUp();
    const [one, two] = [processOf('one'), processOf('two')];
    await one.evaluate(FAILING);
    pass(10_000);
    await one.evaluate(FAILING);
    await one.evaluate({ retry: 50 });
    for (const _ of [1, 2]) {
      await two.evaluate(FINE);
      pass(4_000);
    }
    expect(turns()).toEqual(['bad']);
    pass(20_000);
    await two.evaluate(FINE);
    pass(3_000);
    await two.evaluate(FINE);
    expect(turns()).toEqual(['bad', 'well']);
  });

  it.each([[{ enabled: false }], [{ paused: true }]])(
    'that gets nothing is not judged: %j',
    async (fields) => {
      const { processOf, pass, turns } = setUp(fields);
      const { evaluate } = processOf('one');
      await evaluate(FAILING);
      pass(20_000);
      await evaluate(FAILING);
      expect(turns()).toEqual([]);
    },
  );
});

describe('an engine that is away', () => {
  it.each(['catalog', 'board'] as const)(
    '%s: logged once, and the findings are proposed later',
    async (engine) => {
      const { processOf, pass, turns, away, warned } = setUp();
      const { evaluate } = processOf('one');
      await evaluate(FAILING);
      away[engine] = true;
      pass(10_000);
      await evaluate(FAILING);
      await evaluate(FAILING);
      expect(turns()).toEqual([]);
      expect(warned).toEqual(['the health of destinations cannot be evaluated']);
      away[engine] = false;
      pass(1_000);
      await evaluate(FAILING);
      expect(turns()).toEqual(['bad']);
    },
  );
});
