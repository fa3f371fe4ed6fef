import { describe } from 'vitest';
import { catalogConformance } from '../suite/catalog.conformance.ts';
import { harness } from './harness.ts';

// Every process has a snapshot: the short form has the suite with snapshots, in `snapshots.spec.ts`, which is this
// one and what a file of any age adds.
describe.runIf(process.env.TRIBUTARY_TEST_LONG !== undefined)('without snapshots', () =>
  catalogConformance(harness),
);
