import { funnelStoreConformance } from '../suite/funnel-store.conformance.ts';
import { harness } from './harness.ts';

funnelStoreConformance(harness);
