import { warehouseConformance } from '../../suite/warehouse.conformance.ts';
import { ducklakeHarness } from './harness.ts';

warehouseConformance('DuckLake in a folder', () => ducklakeHarness());
