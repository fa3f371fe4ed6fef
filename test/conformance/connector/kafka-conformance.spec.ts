import { describe } from 'vitest';
import { engines } from '../../helpers/engines.ts';
import { connectorConformance } from './connector.conformance.ts';
import { kafkaHarness, spoil } from './kafka-harness.ts';
import { networkConformance } from './network.conformance.ts';

describe.skipIf(engines() === undefined)('on a real engine', () => {
  connectorConformance('kafka', kafkaHarness);
  networkConformance('kafka', kafkaHarness, spoil);
});
