import {
  type EventLog,
  type Fact,
  type History,
  InvalidInput,
  type LogEntry,
  NO_LOGGER,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import { openLogCatalog } from '@tributary/infra';
import { CATALOG_STAGES } from '@tributary/processors';
import { expect, it, onTestFinished, vi } from 'vitest';
import { entryOf, setUp, until } from './harness.ts';
import { type MemoryCatalog, WORKSPACE } from './memory-catalog.ts';
import { openLog, runOn } from './on-log.ts';

const list = async (history: History, scope = WORKSPACE) =>
  (await history.list({ kind: 'audit', workspaceId: scope, limit: 1_000 })).entries;

const entriesOf = (facts: readonly Fact[], from = 0): readonly LogEntry[] =>
  facts.slice(from).map((fact, index) => entryOf(TOPIC.catalog, from + index, fact));

/** Appends facts, or invalid ones, to the topic of the catalog, which has one partition. */
const appending = (log: Pick<EventLog, 'append'>) => (values: readonly object[]) =>
  log.append(
    TOPIC.catalog,
    values.map((value) => ({
      key: 'k',
      value: JSON.stringify(value),
      headers: { 'catalog-position': '0' },
    })),
  );

/** A destination that is created, renamed twice and deleted, and a rename that comes too late. */
function fill(catalog: MemoryCatalog): void {
  catalog.addDestination('d1', { name: 'one' });
  catalog.add('destination.updated', 'd1', { name: 'two' });
  catalog.add('destination.updated', 'd1', { name: 'three' });
  catalog.add('destination.deleted', 'd1', {});
  void catalog.propose({ ...catalog.facts[3], data: { name: 'late' } } as Fact);
}

/** Names before and after, oldest first. */
async function names(history: History) {
  const entries = (await list(history)).filter(({ facets }) => facets.entity_type === 'destination');
  return entries
    .map(
      ({ body }) =>
        body as { before: { name: string; version: number } | null; after: { name: string } | null },
    )
    .toSorted((a, b) => (a.before?.version ?? 0) - (b.before?.version ?? 0))
    .map(({ before, after }) => [before?.name ?? null, after?.name ?? null]);
}

const EXPECTED = [
  [null, 'one'],
  ['one', 'two'],
  ['two', 'three'],
  ['three', null],
];

it('the audit log lists every applied fact with the values before and after, and no refused one', async () => {
  const { catalog, history, run } = setUp();
  fill(catalog);
  await run('audit', entriesOf(catalog.facts));
  expect(await names(history)).toEqual(EXPECTED);
  expect((await list(history)).map(({ facets }) => facets.action).toSorted()).toEqual([
    'created',
    'created',
    'deleted',
    'updated',
    'updated',
  ]);
});

it('the values before a fact are known also if the stage continues after another process', async () => {
  const { catalog, history, run } = setUp();
  fill(catalog);
  await run('audit', entriesOf(catalog.facts, 4));
  expect(await names(history)).toEqual(EXPECTED.slice(2));
});

it('a fact is listed once after any repetition, in any batches', async () => {
  const { catalog, history, run } = setUp();
  fill(catalog);
  const facts = entriesOf(catalog.facts);
  await run('audit', facts.slice(0, 3));
  await run('audit', facts.slice(0, 3));
  await run('audit', facts.slice(1, 2));
  await run('audit', facts.slice(2, 5));
  await run('audit', facts.slice(0, 1));
  await run('audit', facts);
  expect(await names(history)).toEqual(EXPECTED);
});

it('the folded state is dropped with the partition, and folded again when it returns', async () => {
  const { catalog, history, run } = setUp();
  fill(catalog);
  const facts = entriesOf(catalog.facts);
  const [lost, back] = [new AbortController(), new AbortController()];
  await run('audit', facts.slice(0, 2), lost.signal);
  lost.abort();
  await run('audit', facts.slice(2), back.signal);
  expect(await names(history)).toEqual(EXPECTED);
});

it('a batch that the history did not store is stored again', async () => {
  const { catalog, history, run } = setUp();
  fill(catalog);
  const put = vi.spyOn(history, 'put').mockRejectedValueOnce(new Unavailable('down'));
  onTestFinished(() => put.mockRestore());
  await expect(run('audit', entriesOf(catalog.facts))).rejects.toThrow(Unavailable);
  expect(await list(history)).toEqual([]);
  await run('audit', entriesOf(catalog.facts));
  expect(await names(history)).toEqual(EXPECTED);
});

it('the stage lists all facts before an unknown one, waits there, and skips none', async () => {
  const { catalog, history, run } = setUp();
  fill(catalog);
  const facts = entriesOf(catalog.facts);
  const unknown = entryOf(TOPIC.catalog, 4, { ...catalog.facts[4], type: 'destination.painted' });
  const stuck = [...facts.slice(0, 4), unknown, ...facts.slice(5)];
  for (let time = 0; time < 2; time++) {
    await expect(run('audit', stuck)).rejects.toThrow(Unavailable);
    expect(await names(history)).toEqual(EXPECTED.slice(0, 2));
  }
});

it('every version of a contract is stored once, with any repetition of its facts', async () => {
  const { catalog, history, run } = setUp();
  const schema_definition = { properties: { large: { description: 'x'.repeat(50_000) } } };
  catalog.addContract({ id: 'c1', name: 'one', schema_definition });
  catalog.add('contract.updated', 'c1', { name: 'two' });
  catalog.add('contract.archived', 'c1', {});
  await run('audit', entriesOf(catalog.facts));
  await run('audit', entriesOf(catalog.facts, 2));
  const { entries } = await history.list({
    kind: 'contract',
    workspaceId: WORKSPACE,
    facets: { contract_id: 'c1' },
    limit: 10,
  });
  const shown = entries.map(({ body }) => [body.version, body.name, body.status]);
  expect(shown).toEqual([
    [3, 'two', 'archived'],
    [2, 'two', 'active'],
    [1, 'one', 'active'],
  ]);
  // In full, although the audit log would only give its size.
  expect(entries[0]?.body.schema_definition).toEqual(
    catalog.state.entity('contract', WORKSPACE, 'c1')?.schema_definition,
  );
});

it('the stage processes the topic of the catalog, and continues after a restart', async () => {
  const { catalog, history, stages } = setUp();
  fill(catalog);
  const log = await openLog();
  const append = appending(log);
  await append(catalog.facts.slice(0, 4));
  const first = (await runOn(log, stages, ['audit'])).get('audit');
  await until(async () => (await list(history)).length >= 3);
  await first?.stop();
  await append(catalog.facts.slice(4));
  await runOn(log, setUp({}, { history, catalog }).stages, ['audit']);
  await until(async () => (await list(history)).length >= 5);
  expect(await names(history)).toEqual(EXPECTED);
});

it('the stage continues from the rows of a rewrite if earlier facts were dropped, from any position', async () => {
  const log = await openLog();
  const { catalog, history, stages } = setUp({}, { log });
  fill(catalog);
  const append = appending(log);
  await append(catalog.facts.slice(0, 4));
  const first = (await runOn(log, stages, CATALOG_STAGES)).get('audit');
  const rewriting = openLogCatalog({ log, logger: NO_LOGGER, fetchWaitMs: 50 });
  onTestFinished(() => rewriting.close());
  await rewriting.catchUp(5_000);
  const rewrite = { by: 'operator:catalog', stages: CATALOG_STAGES, stageTimeoutMs: 10_000 };
  // For a stage that was running all the time,
  await rewriting.rewrite(rewrite);
  await append(catalog.facts.slice(4, 5));
  await until(async () => (await list(history)).length >= 4);
  await first?.stop();
  // and for a stage that starts right at the rewrite, with everything before it already in the audit log.
  const { offset } = await rewriting.rewrite(rewrite);
  expect(await log.first(TOPIC.catalog, 0)).toBe(offset);
  await append(catalog.facts.slice(5));
  await runOn(log, setUp({}, { history, catalog, log }).stages, ['audit']);
  await until(async () => (await list(history)).length >= 5);
  expect(await names(history)).toEqual(EXPECTED);
});

it('the stage lists nothing after missing facts, and waits', async () => {
  const log = await openLog();
  const { catalog, history, stages } = setUp({}, { log });
  fill(catalog);
  const append = appending(log);
  await append(catalog.facts.slice(0, 4));
  const first = (await runOn(log, stages, ['audit'])).get('audit');
  await until(async () => (await list(history)).length >= 3);
  await first?.stop();
  await log.dropBelow(TOPIC.catalog, 0, 2);
  await append(catalog.facts.slice(4));
  const again = (await runOn(log, setUp({}, { history, catalog, log }).stages, ['audit'])).get('audit');
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(await list(history)).toHaveLength(3);
  expect((await again?.lag())?.[0]?.lag).toBeGreaterThan(0);
});

it('the stage dead-letters no fact: it waits and reports the reason', async () => {
  const { catalog, history, run } = setUp();
  fill(catalog);
  const put = vi.spyOn(history, 'put').mockRejectedValue(new InvalidInput('a field is too long'));
  onTestFinished(() => put.mockRestore());
  const running = run('audit', entriesOf(catalog.facts, 2));
  await expect(running).rejects.toThrow(Unavailable);
  await expect(running).rejects.toThrow(
    'the audit log waits before the fact at 2 of the catalog: a field is too long',
  );
});

it.each([
  ['of a newer release', { v: 2 }, 'that this release does not know'],
  ['that cannot be read', {}, 'a state has no table painted'],
])('no fact after a rewrite %s is dead-lettered: the stage waits', async (_, over, why) => {
  const log = await openLog();
  const { catalog, history, stages } = setUp({}, { log });
  fill(catalog);
  const append = appending(log);
  await append(catalog.facts.slice(0, 4));
  const first = (await runOn(log, stages, ['audit'])).get('audit');
  await until(async () => (await list(history)).length >= 3);
  await first?.stop();
  const rewrite = { v: 1, rewrite: 'r1', by: 'operator:catalog', at: new Date().toISOString() };
  const text = '["table","painted",["a"],1]\n';
  await append([
    { ...rewrite, type: 'catalog.rewrite_begun', ...over },
    { ...rewrite, type: 'catalog.rewrite_rows', part: 0, text, ...over },
    { ...rewrite, type: 'catalog.rewrite_ended', parts: 1, sha256: '', ...over },
  ]);
  await log.dropBelow(TOPIC.catalog, 0, 4);
  await append(catalog.facts.slice(4));
  const following = openLogCatalog({ log, logger: NO_LOGGER, fetchWaitMs: 50 });
  onTestFinished(() => following.close());
  const again = await runOn(log, setUp({}, { history, catalog, log }).stages, ['audit']);
  // A catalog that starts there reports why it stopped.
  await expect.poll(() => following.fault).toContain(why);
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  expect(await log.end(TOPIC.poison, 0)).toBe(0);
  expect(await list(history)).toHaveLength(3);
  expect((await again.get('audit')?.lag())?.[0]?.lag).toBeGreaterThan(0);
});
