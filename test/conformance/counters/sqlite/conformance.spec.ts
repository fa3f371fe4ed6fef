import { countersConformance } from '../suite/counters.conformance.ts';
import { harness } from './harness.ts';

countersConformance(harness);
