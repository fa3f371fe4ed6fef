import { volumeCountersConformance } from '../suite/volume-counters.conformance.ts';
import { harness } from './harness.ts';

volumeCountersConformance(harness);
