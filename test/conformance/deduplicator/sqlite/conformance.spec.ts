import { deduplicatorConformance } from '../suite/deduplicator.conformance.ts';
import { harness } from './harness.ts';

deduplicatorConformance(harness);
