import { describe } from 'vitest';
import { engines } from '../../helpers/engines.ts';
import { harness } from './elasticsearch-harness.ts';
import { historyConformance } from './history.conformance.ts';

describe.skipIf(!engines())('on the engines of the run', () => {
  historyConformance(harness);
});
