import { describe } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { connectorConformance } from '../suite/connector.conformance.ts';
import { networkConformance } from '../suite/network.conformance.ts';
import { redisHarness } from './harness.ts';

describe.skipIf(engines() === undefined)('on a real engine', () => {
  connectorConformance('redis', redisHarness);
  networkConformance('redis', redisHarness);
});
