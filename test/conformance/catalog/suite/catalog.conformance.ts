import { type Catalog, type EventLog, NO_LOGGER, TOPIC, Unavailable } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Child } from '../../../helpers/child.ts';
import { troubledLog } from '../log/troubled-log.ts';
import type { Told } from '../programs/proposer.ts';
import {
  type CatalogHarness,
  type CatalogOptions,
  type CatalogStore,
  contractFact,
  renameFact,
  WORKSPACE_ID,
  workspaceFact,
} from './harness.ts';

const KILLS = process.env.TRIBUTARY_TEST_LONG ? 20 : 2;
const PROPOSER = new URL('../programs/proposer.ts', import.meta.url);
const OPTIONS: CatalogOptions = { logger: NO_LOGGER, staleAfterMs: 10_000, proposeTimeoutMs: 5_000 };

/** The contract of the `Catalog` port. */
export function catalogConformance(harness: CatalogHarness): void {
  describe(`the ${harness.name} catalog`, () => {
    let store: CatalogStore;
    let log: EventLog;
    const open: Catalog[] = [];
    const children: Child[] = [];
    beforeEach(async () => {
      store = await harness.create();
      log = await harness.openLog(store.settings);
    });
    afterEach(async () => {
      await Promise.all(children.splice(0).map((child) => child.kill()));
      for (const catalog of open.splice(0)) await catalog.close();
      await log.close();
      await store.dispose();
    });

    const opened = async (over = log, options: Partial<CatalogOptions> = {}) => {
      const catalog = await harness.open(over, { ...OPTIONS, ...options });
      open.push(catalog);
      return catalog;
    };
    const ready = (catalog: Catalog) => expect.poll(() => catalog.ready).toBe(true);
    const append = async (fact: object) => {
      const [position] = await log.append(TOPIC.catalog, [
        { key: 'k', value: JSON.stringify(fact), headers: {} },
      ]);
      return position?.offset ?? -1;
    };
    const contract = (catalog: Catalog, id: string) => catalog.state.entity('contract', WORKSPACE_ID, id);
    const active = (catalog: Catalog) =>
      catalog.state
        .entities('contract', WORKSPACE_ID)
        .map(({ id, event_name, version }) => ({ id, event_name, version }));

    describe('a proposal', () => {
      it('is answered with the verdict of the own fold, which shows it at once', async () => {
        const catalog = await opened();
        expect(await catalog.propose(workspaceFact())).toEqual({
          applied: true,
          position: expect.any(Number),
        });
        expect(catalog.state.workspace(WORKSPACE_ID)?.version).toBe(1);
        const verdict = await catalog.propose(contractFact('c1', 'order'));
        expect(verdict).toEqual({ applied: true, position: catalog.position - 1 });
        expect(contract(catalog, 'c1')?.version).toBe(1);
      });

      it('that the fold refuses changes nothing and states why', async () => {
        const catalog = await opened();
        await catalog.propose(workspaceFact());
        await catalog.propose(contractFact('c1', 'order'));
        const taken = await catalog.propose(contractFact('c2', 'order'));
        expect(taken).toEqual({ applied: false, conflict: 'taken' });
        expect(await catalog.propose(renameFact('c1', 'x', 7))).toEqual({
          applied: false,
          conflict: 'version',
        });
        expect(active(catalog)).toEqual([{ id: 'c1', event_name: 'order', version: 1 }]);
      });

      it('is in the log for every other catalog, and for one that starts later', async () => {
        const [one, other] = [await opened(), await opened()];
        await one.propose(workspaceFact());
        await one.propose(contractFact('c1', 'order'));
        await other.waitFor(one.position, 5_000);
        expect(active(other)).toEqual(active(one));
        const later = await opened();
        await later.waitFor(one.position, 5_000);
        expect(active(later)).toEqual(active(one));
      });

      it('competes with those of other catalogs: one is applied, and all agree which', async () => {
        const catalogs = await Promise.all([opened(), opened(), opened()]);
        await catalogs[0]?.propose(workspaceFact());
        for (let round = 0; round < 5; round++) {
          const verdicts = await Promise.all(
            catalogs.map((catalog, n) => catalog.propose(contractFact(`c-${round}-${n}`, `pair-${round}`))),
          );
          expect(verdicts.filter(({ applied }) => applied)).toHaveLength(1);
        }
        for (const catalog of catalogs) await catalog.catchUp(5_000);
        const [first, ...others] = catalogs.map(active);
        expect(first).toHaveLength(5);
        for (const other of others) expect(other).toEqual(first);
      });

      it('is Unavailable when the log does not take it', async () => {
        const troubled = troubledLog(log);
        const catalog = await opened(troubled);
        troubled.failing = true;
        await expect(catalog.propose(workspaceFact())).rejects.toThrow(Unavailable);
        troubled.failing = false;
        expect((await catalog.propose(workspaceFact())).applied).toBe(true);
      });

      it('is Unavailable in time when the log does not answer, and may have been taken', async () => {
        const troubled = troubledLog(log);
        const catalog = await opened(troubled, { proposeTimeoutMs: 300 });
        await expect.poll(() => tried(catalog.propose(workspaceFact()))).toBe(true);
        troubled.silentReads = true;
        await expect(catalog.propose(contractFact('c1', 'order'))).rejects.toThrow(Unavailable);
        troubled.silentReads = false;
        await expect.poll(() => contract(catalog, 'c1')?.version).toBe(1);
      });
    });

    describe('waiting', () => {
      it('ends when the position is reached, at once when it was', async () => {
        const catalog = await opened();
        await catalog.waitFor(0, 0);
        const waiting = catalog.waitFor(1, 5_000);
        await append(workspaceFact());
        await waiting;
        expect(catalog.position).toBeGreaterThanOrEqual(1);
        await catalog.waitFor(1, 0);
      });

      it('is Unavailable after its time', async () => {
        const catalog = await opened();
        await expect(catalog.waitFor(1_000, 30)).rejects.toThrow(Unavailable);
      });

      it('for the end of the log sees entries that others appended before', async () => {
        const catalog = await opened();
        await append(workspaceFact());
        await catalog.catchUp(5_000);
        expect(catalog.state.workspace(WORKSPACE_ID)).toBeDefined();
        await catalog.catchUp(5_000);
      });
    });

    describe('readiness', () => {
      it('comes with the end that the log had at start', async () => {
        await append(workspaceFact());
        for (let n = 0; n < 50; n++) await append(contractFact(`c-${n}`, `pair-${n}`));
        const troubled = troubledLog(log);
        troubled.silentReads = true;
        const catalog = await opened(troubled);
        await expect(catalog.waitFor(1, 50)).rejects.toThrow(Unavailable);
        expect(catalog.ready).toBe(false);
        troubled.silentReads = false;
        await ready(catalog);
        expect(active(catalog)).toHaveLength(50);
      });

      it('returns when a log answers again', async () => {
        const troubled = troubledLog(log);
        troubled.failing = true;
        const catalog = await opened(troubled, { staleAfterMs: 300 });
        await expect(catalog.waitFor(1, 200)).rejects.toThrow(Unavailable);
        expect(catalog.ready).toBe(false);
        troubled.failing = false;
        await ready(catalog);
        troubled.failing = true;
        await expect.poll(() => catalog.ready).toBe(false);
        troubled.failing = false;
        await ready(catalog);
        expect((await catalog.propose(workspaceFact())).applied).toBe(true);
      });

      it('goes when fetches hang', async () => {
        const troubled = troubledLog(log);
        const catalog = await opened(troubled, { staleAfterMs: 300 });
        await ready(catalog);
        troubled.silentReads = true;
        await expect.poll(() => catalog.ready).toBe(false);
        troubled.silentReads = false;
        await ready(catalog);
      });

      it('ends permanently, with an error in the log, when the log lost folded facts', async () => {
        const errors: object[] = [];
        const logger = { ...NO_LOGGER, error: (fields: object) => errors.push(fields) };
        const troubled = troubledLog(log);
        const catalog = await opened(troubled, { logger });
        await catalog.propose(workspaceFact());
        await catalog.propose(contractFact('c1', 'order'));
        await ready(catalog);
        troubled.lost = 1;
        await expect.poll(() => catalog.fault).toMatch('facts were lost');
        expect(catalog.ready).toBe(false);
        expect(errors).toEqual([expect.objectContaining({ position: catalog.position })]);
        await expect(catalog.propose(workspaceFact('w2'))).rejects.toThrow(Unavailable);
        troubled.lost = 0;
        expect(catalog.ready).toBe(false);
      });

      it('states how long the log has been silent', async () => {
        const troubled = troubledLog(log);
        troubled.failing = true;
        const catalog = await opened(troubled);
        expect(catalog.age).toBe(Number.POSITIVE_INFINITY);
        troubled.failing = false;
        await ready(catalog);
        expect(catalog.age).toBeLessThan(5_000);
        troubled.silentReads = true;
        await expect.poll(() => catalog.age).toBeGreaterThan(700);
        troubled.silentReads = false;
        await expect.poll(() => catalog.age).toBeLessThan(300);
      });

      it.each([
        ['a type', { ...workspaceFact('w2'), type: 'workspace.painted' }],
        ['a version', { ...workspaceFact('w2'), v: 2 }],
        ['a form', { v: 1, type: 'workspace.created', entity: 'w2' }],
      ])(
        'ends permanently at a fact of %s it does not know, with an error in the log and everything before it folded',
        async (_, fact) => {
          const errors: object[] = [];
          const logger = { ...NO_LOGGER, error: (fields: object) => errors.push(fields) };
          const catalog = await opened(log, { logger });
          await catalog.propose(workspaceFact());
          await ready(catalog);
          const offset = await append(fact);
          await append(workspaceFact('w3'));
          await expect.poll(() => catalog.ready).toBe(false);
          expect(catalog.position).toBe(offset);
          expect(catalog.state.workspace(WORKSPACE_ID)).toBeDefined();
          expect(catalog.state.workspace('w3')).toBeUndefined();
          expect(errors).toEqual([expect.objectContaining({ position: offset })]);
          await expect(catalog.waitFor(offset + 1, 50)).rejects.toThrow(Unavailable);
          const end = await log.end(TOPIC.catalog, 0);
          await expect(catalog.propose(workspaceFact('w4'))).rejects.toThrow(Unavailable);
          expect(await log.end(TOPIC.catalog, 0)).toBe(end);
          expect(catalog.ready).toBe(false);
        },
      );
    });

    it('rejects waiting callers when it is closed, and closes twice', async () => {
      const catalog = await opened();
      const waiting = expect(catalog.waitFor(9, 60_000)).rejects.toThrow(Unavailable);
      await catalog.close();
      await waiting;
      await catalog.close();
      expect(catalog.ready).toBe(false);
      await expect(catalog.propose(workspaceFact())).rejects.toThrow(Unavailable);
    });

    it('agrees with the catalogs of other processes that propose for the same pairs', async () => {
      const catalog = await opened();
      await catalog.propose(workspaceFact());
      const rivals = ['x', 'y', 'z'].map((name) => start(name, 15));
      await Promise.all(rivals.map((rival) => rival.wrote(1)));
      for (const rival of rivals) rival.go();
      const told = (await Promise.all(rivals.map((rival) => rival.finished()))).flatMap(verdicts);
      await catalog.catchUp(5_000);
      const applied = told.filter((each) => each.applied);
      expect(applied).toHaveLength(15);
      const stored = active(catalog).map(({ id, event_name }) => ({ id, pair: event_name, applied: true }));
      expect(stored.sort(byPair)).toEqual(applied.sort(byPair));
    });

    it('has every fact whose verdict a killed process reported', async () => {
      const catalog = await opened();
      await catalog.propose(workspaceFact());
      for (let kill = 0; kill < KILLS; kill++) {
        const child = start(`k${kill}`, 1_000);
        await child.wrote(1);
        child.go();
        await child.wrote(3 + kill * 4);
        await child.kill();
        await catalog.catchUp(5_000);
        for (const { id, applied } of verdicts(child.lines))
          expect(contract(catalog, id) !== undefined).toBe(applied);
        expect((await catalog.propose(contractFact(`after-${kill}`, `after-${kill}`))).applied).toBe(true);
      }
    });

    function start(name: string, facts: number): Child {
      const child = new Child(PROPOSER, [harness.module, store.settings, name, String(facts)]);
      children.push(child);
      return child;
    }
  });
}

/** True once the log took a proposal in time: its first append may have to start a thread. */
async function tried(proposal: Promise<unknown>): Promise<boolean> {
  try {
    await proposal;
    return true;
  } catch (error) {
    if (error instanceof Unavailable) return false;
    throw error;
  }
}

/** All but the first line, which reports that the process is up. */
function verdicts(lines: readonly unknown[]): readonly Told[] {
  return lines.slice(1) as readonly Told[];
}

function byPair(one: Pick<Told, 'pair'>, other: Pick<Told, 'pair'>): number {
  return one.pair < other.pair ? -1 : 1;
}
