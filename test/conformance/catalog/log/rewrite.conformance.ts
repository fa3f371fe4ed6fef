import { setTimeout as sleep } from 'node:timers/promises';
import { type Catalog, type EventLog, NO_LOGGER, TOPIC, Unavailable } from '@tributary/core';
import {
  type LogCatalogOptions,
  openLogCatalog,
  type RewritableCatalog,
  type Rewritten,
} from '@tributary/infra';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Child } from '../../../helpers/child.ts';
import {
  type CatalogHarness,
  type CatalogStore,
  contractFact,
  destinationFact,
  factOf,
  keyFact,
  renameFact,
  WORKSPACE_ID,
} from '../suite/harness.ts';
import { digestOf, fill, offsetOf } from './rewrite-contents.ts';
import { troubledLog } from './troubled-log.ts';

const REWRITER = new URL('../programs/rewriter.ts', import.meta.url);
const STEPS = ['begun', 'piece', 'ended', 'read back', 'awaited', 'dropped'];
const REWRITE = { by: 'operator:catalog', stages: [], stageTimeoutMs: 5_000 };

/**
 * The contract of `rewrite` for the catalog of any log. `steps` are the steps after which a rewrite is
 * killed.
 */
export function describeRewrite(harness: CatalogHarness): void {
  describe(`the rewrite of the ${harness.name} catalog`, () => {
    let store: CatalogStore;
    let log: EventLog;
    const closing: { close(): Promise<unknown> }[] = [];
    const children: Child[] = [];
    beforeEach(async () => {
      store = await harness.create();
      log = await harness.openLog(store.settings);
    });
    afterEach(async () => {
      await Promise.all(children.splice(0).map((child) => child.kill()));
      for (const each of closing.splice(0)) await each.close();
      await log.close();
      await store.dispose();
    });

    /** Opens a catalog without a snapshot, so all of its state was read from the log. */
    function opened(over: LogCatalogOptions['log'] = log, logger = NO_LOGGER): RewritableCatalog {
      const catalog = openLogCatalog({ log: over, logger, fetchWaitMs: 50, proposeTimeoutMs: 10_000 });
      closing.push(catalog);
      return catalog;
    }
    async function caughtUp<C extends Catalog>(catalog: C): Promise<C> {
      await catalog.catchUp(10_000);
      return catalog;
    }
    const fresh = async () => caughtUp(opened());
    const first = () => log.first(TOPIC.catalog, 0);

    it('gives a starting process the same state as a running one, without notifying subscribers', async () => {
      const [catalog, other] = [opened(), opened()];
      const positions = await fill(catalog);
      await caughtUp(other);
      const known = digestOf(catalog);
      const { offset, dropped } = await catalog.rewrite(REWRITE);
      expect(dropped).toBe(positions + 1);
      expect(await first()).toBe(offset);
      const later = await fresh();
      for (const each of [catalog, other, later]) {
        await caughtUp(each);
        expect(digestOf(each)).toBe(known);
        expect(each.ready).toBe(true);
        expect(each.position).toBe(catalog.position);
      }
      // Events have positions from before the rewrite, and are evaluated by the same contracts as before.
      const judges = (each: Catalog) =>
        Array.from({ length: offset + 5 }, (_, position) =>
          each.state.contractAt(WORKSPACE_ID, 'track', 'order', position),
        );
      expect(judges(later)).toEqual(judges(catalog));
      expect(new Set(judges(later).map((contract) => contract?.name)).size).toBe(4);
    });

    it('keeps all decisions: versions, taken names, deleted ids, revoked keys', async () => {
      const catalog = opened();
      await fill(catalog);
      await catalog.rewrite(REWRITE);
      await catalog.rewrite(REWRITE);
      const later = await fresh();
      expect(await later.propose(contractFact('c9', 'order'))).toMatchObject({ conflict: 'taken' });
      expect(await later.propose(renameFact('c1', 'late', 1))).toMatchObject({ conflict: 'version' });
      expect(await later.propose(renameFact('c1', 'in time', 3))).toMatchObject({ applied: true });
      expect(await later.propose(destinationFact('d1'))).toMatchObject({ conflict: 'taken' });
      expect(await later.propose(factOf('destination.deleted', 'd2', {}))).toMatchObject({ applied: true });
      expect(later.state.wasDeleted('destination', WORKSPACE_ID, 'd2')).toBe(true);
      expect(later.state.keyByHash('h1')?.key.status).toBe('revoked');
      expect(await later.propose(keyFact('k2', 'h1'))).toMatchObject({ conflict: 'taken' });
      expect(digestOf(await caughtUp(catalog))).toBe(digestOf(later));
    });

    it('accepts facts while it runs, with the same result in every process', async () => {
      const [catalog, busy] = [opened(), opened()];
      await fill(catalog);
      await caughtUp(busy);
      let rewriting = true;
      let made = 0;
      const proposing = (async () => {
        for (; rewriting || made < 10; made++) {
          await offsetOf(busy, contractFact(`busy-${made}`, `busy-${made}`));
          await busy.propose(renameFact(`busy-${made}`, 'again', 1));
          await busy.propose(contractFact(`rival-${made}`, `busy-${made}`));
        }
      })();
      for (let round = 0; round < 3; round++) {
        await catalog.rewrite(REWRITE);
        const later = await fresh();
        await later.waitFor(busy.position, 10_000);
      }
      rewriting = false;
      await proposing;
      const later = await fresh();
      for (const each of [catalog, busy]) expect(digestOf(await caughtUp(each))).toBe(digestOf(later));
      expect(later.state.entities('contract', WORKSPACE_ID).length).toBeGreaterThanOrEqual(made);
    });

    it.each(STEPS)('loses no data if it is killed after "%s", and the next one is complete', async (step) => {
      const catalog = opened();
      await fill(catalog);
      const known = digestOf(catalog);
      const child = rewriter(step);
      await child.wrote(1);
      child.go();
      await child.ended();
      expect(child.lines).toEqual(['ready']);
      expect((await first()) > 0).toBe(step === 'dropped');
      await offsetOf(catalog, contractFact('c-late', 'late'));
      await catalog.propose(renameFact('c-late', 'late', 1));
      const after = digestOf(catalog);
      expect(after).not.toBe(known);
      expect(digestOf(await fresh())).toBe(after);
      const again = await (await fresh()).rewrite(REWRITE);
      expect(again.offset).toBe(await first());
      expect(await first()).toBeGreaterThan(10);
      expect(digestOf(await fresh())).toBe(after);
      expect(digestOf(await caughtUp(catalog))).toBe(after);
    });

    it('loses no data beside a concurrent one, in either order', async () => {
      const [one, other] = [opened(), opened()];
      await fill(one);
      await caughtUp(other);
      const known = digestOf(one);
      for (let round = 0; round < 3; round++) {
        const rewriting = await Promise.allSettled([one.rewrite(REWRITE), other.rewrite(REWRITE)]);
        const rewritten = rewriting.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
        for (const each of rewriting)
          if (each.status === 'rejected') expect(String(each.reason)).toMatch(/overtaken by another one/);
        expect(await first()).toBe(Math.max(...rewritten.map(({ offset }) => offset)));
        expect(digestOf(await fresh())).toBe(known);
      }
      for (const each of [one, other]) expect(digestOf(await caughtUp(each))).toBe(known);
    });

    it.each(['begun', 'ended'])('fails if another one drops it after "%s", which is complete', async (at) => {
      const [one, other] = [opened(), opened()];
      await fill(one);
      await caughtUp(other);
      const known = digestOf(one);
      const held = holding(log);
      const slow = await caughtUp(opened(held.log));
      let second: Promise<Rewritten> | undefined;
      const done = (step: string) => {
        if (step !== at) return;
        // The next step of this rewrite waits for the other rewrite.
        held.hold();
        second = other.rewrite(REWRITE).finally(() => held.release());
      };
      await expect(slow.rewrite({ ...REWRITE, done })).rejects.toThrow(/overtaken by another one/);
      expect(await first()).toBe((await second)?.offset);
      for (const each of [one, other, slow, await fresh()])
        expect(digestOf(await caughtUp(each))).toBe(known);
      expect(await first()).toBeLessThan((await slow.rewrite(REWRITE)).offset);
    });

    it('is the place where a process continues that had not read the dropped facts', async () => {
      const troubled = troubledLog(log);
      const [catalog, late] = [opened(), opened(troubled)];
      await fill(catalog);
      await caughtUp(late);
      troubled.failing = true;
      await offsetOf(catalog, contractFact('c7', 'seven'));
      await offsetOf(catalog, contractFact('c8', 'eight'));
      await catalog.rewrite(REWRITE);
      await offsetOf(catalog, renameFact('c8', 'renamed', 1));
      troubled.failing = false;
      await late.waitFor(catalog.position, 10_000);
      expect(digestOf(late)).toBe(digestOf(catalog));
      await expect.poll(() => late.ready).toBe(true);
      expect((await late.propose(contractFact('c9', 'nine'))).applied).toBe(true);
    });

    it('dropped a fact before the gateway of its change had read it, which answered 503: it waits for gateways', async () => {
      const troubled = troubledLog(log);
      const [catalog, late] = [opened(), opened(troubled)];
      const position = await fill(catalog);
      await caughtUp(late);
      troubled.silentReads = true;
      await sleep(200); // longer than a read waits: the next one is to find the fact
      const proposed = late.propose(contractFact('c7', 'seven'));
      await catalog.waitFor(position + 2, 10_000);
      const hear = (step: string) => {
        if (step === 'awaited') troubled.silentReads = false;
      };
      const rewriting = catalog.rewrite({ ...REWRITE, graceMs: 3_000, done: hear });
      expect((await proposed).applied).toBe(true);
      await rewriting;
    });

    describe('before it drops facts', () => {
      it('leaves the log unchanged while a stage has not processed the facts, and names the stage', async () => {
        const catalog = opened();
        await fill(catalog);
        const rewriting = catalog.rewrite({ ...REWRITE, stages: ['audit'], stageTimeoutMs: 300 });
        await expect(rewriting).rejects.toThrow(/the stage audit is at 0 of the catalog, not yet at \d+/);
        await expect(rewriting).rejects.toThrow(Unavailable);
        expect(await first()).toBe(0);
        const end = await log.end(TOPIC.catalog, 0);
        const run = await log.run({
          kind: 'batch',
          name: 'audit',
          reads: [{ topic: TOPIC.catalog }],
          writes: [],
          process: async () => [],
        });
        const { offset } = await catalog.rewrite({ ...REWRITE, stages: ['audit'], stageTimeoutMs: 20_000 });
        await run.stop();
        expect(offset).toBe(end);
        expect(await first()).toBe(offset);
      });
    });

    describe('missing facts without a rewrite in their place', () => {
      async function notReady(catalog: Catalog, errors: readonly object[]): Promise<void> {
        await expect.poll(() => catalog.fault).toMatch(/facts are missing$/);
        expect(catalog.ready).toBe(false);
        expect(errors).toEqual([{ position: catalog.position, error: catalog.fault }]);
        await expect(catalog.propose(contractFact('no', 'no'))).rejects.toThrow('facts are missing');
        await expect(catalog.waitFor(1_000, 10_000)).rejects.toThrow('facts are missing');
      }
      const recording = () => {
        const errors: object[] = [];
        return { errors, logger: { ...NO_LOGGER, error: (fields: object) => errors.push(fields) } };
      };

      it('make a starting process permanently not ready, with an error', async () => {
        await fill(opened());
        await log.dropBelow(TOPIC.catalog, 0, 4);
        const { errors, logger } = recording();
        const catalog = opened(log, logger);
        await notReady(catalog, errors);
        expect(catalog.state.workspace(WORKSPACE_ID)).toBeUndefined();
      });

      it.each([
        ['something', 1],
        ['nothing', 0],
      ])('make a lagging process permanently not ready, with %s left to read', async (_, left) => {
        const troubled = troubledLog(log);
        const { errors, logger } = recording();
        const [catalog, late] = [opened(), opened(troubled, logger)];
        await fill(catalog);
        await caughtUp(late);
        const position = late.position;
        troubled.failing = true;
        for (let n = 0; n < 3; n++) await offsetOf(catalog, contractFact(`g${n}`, `g${n}`));
        await log.dropBelow(TOPIC.catalog, 0, catalog.position - left);
        troubled.failing = false;
        await notReady(late, errors);
        expect(late.position).toBe(position);
      });
    });

    /**
     * A log that performs appends but holds back reads and answers after `hold`, which reports the first
     * append.
     */
    function holding(over: EventLog) {
      let released: Promise<void> = Promise.resolve();
      let release = () => {};
      let appended = (_: number) => {};
      const held: LogCatalogOptions['log'] = {
        end: over.end.bind(over),
        first: over.first.bind(over),
        positionOf: over.positionOf.bind(over),
        dropBelow: over.dropBelow.bind(over),
        async append(...args) {
          const positions = await over.append(...args);
          appended(positions[0]?.offset ?? -1);
          await released;
          return positions;
        },
        async read(...[topic, partition, from, options]) {
          for (;;) {
            await released;
            const since = released;
            const read = await over.read(topic, partition, from, options);
            // A read in flight when holding began is repeated.
            if (since === released) return read;
          }
        },
      };
      const hold = () => {
        ({ promise: released, resolve: release } = Promise.withResolvers<void>());
        return new Promise<number>((resolve) => {
          appended = resolve;
        });
      };
      return { log: held, hold, release: () => release() };
    }

    function rewriter(step: string): Child {
      const child = new Child(REWRITER, [harness.module, store.settings, step]);
      children.push(child);
      return child;
    }
  });
}
