import { deduplicatorConformance } from './deduplicator.conformance.ts';
import { harness } from './sqlite-harness.ts';

deduplicatorConformance(harness);
