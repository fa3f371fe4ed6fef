import { describe } from 'vitest';
import { engines } from '../../helpers/engines.ts';
import { connectorConformance } from './connector.conformance.ts';
import { networkConformance } from './network.conformance.ts';
import { redisHarness } from './redis-harness.ts';

describe.skipIf(engines() === undefined)('on a real engine', () => {
  connectorConformance('redis', redisHarness);
  networkConformance('redis', redisHarness);
});
