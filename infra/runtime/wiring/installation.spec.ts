import { type Catalog, type Fact, NO_LOGGER } from '@tributary/core';
import { expect, it } from 'vitest';
import type { Config } from '../config/settings.ts';
import { startDeadline } from '../process/await-engines.ts';
import { installationOf, nameInstallation } from './installation.ts';
import type { StoreMarks } from './ports/stores.ts';

const deadline = startDeadline(1_000, NO_LOGGER);

/** A catalog without an installation id, and what is proposed to it. */
function unnamed(organizationCount: number) {
  const proposed: Fact[] = [];
  const catalog = {
    state: { installation: undefined, organizationCount },
    catchUp: async () => {},
    propose: async (fact: Fact) => void proposed.push(fact),
  } as unknown as Catalog;
  return { catalog, proposed };
}

it('a catalog that an older release began is named in the form that processes of 0.2.0 know, until the upgrade', async () => {
  const { catalog, proposed } = unnamed(1);
  const tools = { catalog, log: { topics: new Map(), end: async () => 0 }, logger: NO_LOGGER };
  await installationOf({} as Config, tools, {} as StoreMarks, deadline);
  await nameInstallation(catalog, deadline, 'operator:upgrade');
  expect(proposed.map(({ type, v }) => [type, v])).toEqual([
    ['installation.created', 1],
    ['installation.created', 2],
  ]);
});
