import { warehouseConformance } from '../suite/warehouse.conformance.ts';
import { bucketHarness } from './bucket-harness.ts';

warehouseConformance('lake in a bucket', () => bucketHarness());
