import { describe, expect, it } from 'vitest';
import { noEngine } from '../../../connector/suite/harness.ts';
import { warehouseConformance } from '../../suite/warehouse.conformance.ts';
import { findExtensions } from './duckdb.ts';
import { duckdbHarness } from './harness.ts';

const extensions = findExtensions();
if (extensions === undefined)
  console.warn('NO EXTENSIONS OF DUCKDB, their tests are SKIPPED: bash .ci/ducklake');

describe.skipIf(extensions === undefined && process.env.CI === undefined)('read by DuckDB', () => {
  it('are installed', () => {
    expect(extensions, 'the extensions are not there: bash .ci/ducklake').toBeDefined();
  });

  warehouseConformance('DuckLake in a folder', () =>
    extensions === undefined ? noEngine('duckdb') : duckdbHarness(extensions),
  );
});
