import { connectorConformance } from './connector.conformance.ts';
import { ndjsonHarness } from './ndjson-harness.ts';

connectorConformance('ndjson', ndjsonHarness);
