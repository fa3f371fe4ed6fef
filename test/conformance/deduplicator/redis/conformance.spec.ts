import { describe } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { deduplicatorConformance } from '../suite/deduplicator.conformance.ts';
import { harness } from './harness.ts';

describe.skipIf(!engines())('on a real server', () => deduplicatorConformance(harness));
