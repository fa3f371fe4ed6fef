import { describe } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { harness } from './harness.ts';
import { volumeCountersConformance } from '../suite/volume-counters.conformance.ts';

describe.skipIf(!engines())('on a real server', () => volumeCountersConformance(harness));
