import { connectorConformance } from '../suite/connector.conformance.ts';
import { ndjsonHarness } from './harness.ts';

connectorConformance('ndjson', ndjsonHarness);
