import { afterAll, describe, expect, it } from 'vitest';
import { noEngine } from '../../connector/suite/harness.ts';
import { warehouseConformance } from '../suite/warehouse.conformance.ts';
import { findFakesnow, startFakesnow } from './fakesnow.ts';
import { snowflakeHarness } from './harness.ts';

const installed = findFakesnow();
if (installed === undefined) console.warn('NO FAKESNOW, its tests are SKIPPED: bash .ci/fakesnow');
const server = installed === undefined ? undefined : await startFakesnow(installed);

describe.skipIf(server === undefined && process.env.CI === undefined)('on fakesnow', () => {
  afterAll(() => server?.stop());

  it('is installed', () => {
    expect(server, 'fakesnow is not there: bash .ci/fakesnow').toBeDefined();
  });

  warehouseConformance('warehouse-snowflake', () =>
    server === undefined ? noEngine('fakesnow') : snowflakeHarness(server.port),
  );
});
