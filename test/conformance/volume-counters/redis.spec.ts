import { describe } from 'vitest';
import { engines } from '../../helpers/engines.ts';
import { harness } from './redis-harness.ts';
import { volumeCountersConformance } from './volume-counters.conformance.ts';

describe.skipIf(!engines())('on a real server', () => volumeCountersConformance(harness));
