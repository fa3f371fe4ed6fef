import { warehouseConformance } from '../suite/warehouse.conformance.ts';
import { folderHarness } from './folder-harness.ts';

warehouseConformance('lake in a folder', () => folderHarness());
