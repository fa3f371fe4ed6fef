import { describe } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { funnelStoreConformance } from '../suite/funnel-store.conformance.ts';
import { harness } from './harness.ts';

describe.skipIf(!engines())('on a real server', () => funnelStoreConformance(harness));
