import { describe } from 'vitest';
import { engines } from '../../helpers/engines.ts';
import { deduplicatorConformance } from './deduplicator.conformance.ts';
import { harness } from './redis-harness.ts';

describe.skipIf(!engines())('on a real server', () => deduplicatorConformance(harness));
