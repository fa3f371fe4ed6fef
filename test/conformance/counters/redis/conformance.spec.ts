import { describe } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { countersConformance } from '../suite/counters.conformance.ts';
import { harness } from './harness.ts';

describe.skipIf(!engines())('on a real server', () => countersConformance(harness));
