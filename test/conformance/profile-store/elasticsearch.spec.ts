import { describe } from 'vitest';
import { engines } from '../../helpers/engines.ts';
import { harness } from './elasticsearch-harness.ts';
import { profileStoreConformance } from './profile-store.conformance.ts';

describe.skipIf(!engines())('on the engines of the run', () => {
  profileStoreConformance(harness);
});
