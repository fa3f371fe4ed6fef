import { connectorConformance } from '../suite/connector.conformance.ts';
import { networkConformance } from '../suite/network.conformance.ts';
import { webhookHarness } from './harness.ts';

connectorConformance('webhook', webhookHarness);
networkConformance('webhook', webhookHarness);
