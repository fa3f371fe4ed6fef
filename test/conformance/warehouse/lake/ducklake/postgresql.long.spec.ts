import { afterAll, describe } from 'vitest';
import { postgresServer } from '../../../../helpers/postgres.ts';
import { noEngine } from '../../../connector/suite/harness.ts';
import { warehouseConformance } from '../../suite/warehouse.conformance.ts';
import { postgresqlHarness } from './postgresql-harness.ts';

const server = await postgresServer();

describe.skipIf(server === undefined)('on a real engine', () => {
  afterAll(() => server?.stop());
  warehouseConformance('DuckLake in a bucket, with its catalog in PostgreSQL', () =>
    server === undefined ? noEngine('postgres') : postgresqlHarness(server),
  );
});
