import { connectorConformance } from './connector.conformance.ts';
import { networkConformance } from './network.conformance.ts';
import { s3Harness } from './s3-harness.ts';

connectorConformance('s3', s3Harness);
networkConformance('s3', s3Harness);
