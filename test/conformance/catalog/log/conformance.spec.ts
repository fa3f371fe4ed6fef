import { describe } from 'vitest';
import { catalogConformance } from '../suite/catalog.conformance.ts';
import { harness } from './harness.ts';

// Every process has a snapshot. The short form runs the suite only with snapshots, in `snapshots.spec.ts`:
// the same suite plus cases for snapshot files of any age.
describe.runIf(process.env.TRIBUTARY_TEST_LONG !== undefined)('without snapshots', () =>
  catalogConformance(harness),
);
