import { describe } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { historyConformance } from '../suite/history.conformance.ts';
import { harness } from './harness.ts';

describe.skipIf(!engines())('on the engines of the run', () => {
  historyConformance(harness);
});
