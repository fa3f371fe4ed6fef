import { afterAll, describe } from 'vitest';
import { engineOfFile } from '../../../helpers/own-engines.ts';
import { noEngine } from '../../connector/suite/harness.ts';
import { warehouseConformance } from '../suite/warehouse.conformance.ts';
import { clickhouseHarness } from './harness.ts';

const server = await engineOfFile('clickhouse');

describe.skipIf(server === undefined)('on a real engine', () => {
  afterAll(() => server?.stop());
  warehouseConformance('warehouse-clickhouse', () =>
    server === undefined ? noEngine('clickhouse') : clickhouseHarness(server),
  );
});
