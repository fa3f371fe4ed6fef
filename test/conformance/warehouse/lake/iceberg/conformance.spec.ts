import { warehouseConformance } from '../../suite/warehouse.conformance.ts';
import { startFakeCatalog } from './fake-catalog.ts';
import { icebergHarness } from './harness.ts';

warehouseConformance('lake of Iceberg', async () => icebergHarness(await startFakeCatalog()));
