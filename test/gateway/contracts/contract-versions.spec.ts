import { CatalogState, type Contract, contractVersionEntries } from '@tributary/core';
import { beforeEach, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
let owner: Client;
let id: string;
/** As the API showed each while it was the newest. */
let shown: Contract[];

/** Five versions, and the entries of the audit stage for their facts. */
beforeEach(async () => {
  owner = await test.openWorkspace();
  const body = (name: string) => ({ name, event_type: 'track', event_name: 'Paid', schema_definition: {} });
  shown = [await owner.ok<Contract>('POST', './event-contracts', body('1'))];
  id = String(shown[0]?.id);
  for (const name of ['2', '3', '4', '5'])
    shown.push(await owner.ok<Contract>('PUT', `./event-contracts/${id}`, body(name)));
  const entries = shown.flatMap((after, n) => contractVersionEntries(shown[n - 1], after));
  await test.dependencies.history.put(entries);
});

/** Forgets replaced versions, so none of them is used for evaluation any more. */
function forgetPast(): void {
  const { state } = test.dependencies.catalog;
  if (!(state instanceof CatalogState)) throw new Error('another state');
  state.forgetEras('9999');
}

const at = (path = '') => `./event-contracts/${id}/versions${path}`;

it.each(['the catalog', 'history'])('each version is returned as it was, from %s', async (source) => {
  if (source === 'history') forgetPast();
  for (const version of shown) expect(await owner.ok('GET', at(`/${version.version}`))).toEqual(version);
});

it('versions are listed newest first, page by page', async () => {
  expect(await owner.ok('GET', at())).toEqual(shown.toReversed());
  for (const limit of [1, 2, 3, 5]) {
    const seen: Contract[] = [];
    for await (const page of owner.pages<Contract>(at(`?limit=${limit}`))) {
      expect(page.length).toBeLessThanOrEqual(limit);
      seen.push(...page);
    }
    expect(seen).toEqual(shown.toReversed());
  }
});

it('the current version is listed also if history does not have it', async () => {
  const young = await owner.ok<Contract>('POST', './event-contracts', {
    name: 'young',
    event_type: 'identify',
    schema_definition: {},
  });
  expect(await owner.ok('GET', `./event-contracts/${young.id}/versions`)).toEqual([young]);
  expect(
    (await owner.call('GET', `./event-contracts/${young.id}/versions?limit=1`)).headers.link,
  ).toBeUndefined();
});

it('an invalid or unknown version is 404', async () => {
  for (const version of ['0', '6', '-1', '1.0', '01', 'one', '99999999999'])
    expect((await owner.call('GET', at(`/${version}`))).status).toBe(404);
  expect((await owner.call('GET', at('?cursor=none'))).status).toBe(400);
});
