import { harness } from './sqlite-harness.ts';
import { volumeCountersConformance } from './volume-counters.conformance.ts';

volumeCountersConformance(harness);
