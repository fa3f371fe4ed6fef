import { describe } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { volumeCountersConformance } from '../suite/volume-counters.conformance.ts';
import { harness } from './harness.ts';

describe.skipIf(!engines())('on a real server', () => volumeCountersConformance(harness));
