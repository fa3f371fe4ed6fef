import { harness } from './harness.ts';
import { volumeCountersConformance } from '../suite/volume-counters.conformance.ts';

volumeCountersConformance(harness);
