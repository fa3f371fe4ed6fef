import { catalogConformance } from './catalog.conformance.ts';
import { harness } from './log-harness.ts';

catalogConformance(harness);
