import { connectorConformance } from '../suite/connector.conformance.ts';
import { networkConformance } from '../suite/network.conformance.ts';
import { s3Harness } from './harness.ts';

connectorConformance('s3', s3Harness);
networkConformance('s3', s3Harness);
