import { connectorConformance } from './connector.conformance.ts';
import { networkConformance } from './network.conformance.ts';
import { webhookHarness } from './webhook-harness.ts';

connectorConformance('webhook', webhookHarness);
networkConformance('webhook', webhookHarness);
