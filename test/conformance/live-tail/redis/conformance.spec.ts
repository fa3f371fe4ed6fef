import { describe } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { liveTailConformance } from '../suite/live-tail.conformance.ts';
import { harness } from './harness.ts';

describe.skipIf(!engines())('on a real server', () => liveTailConformance(harness));
