import { profileStoreConformance } from '../suite/profile-store.conformance.ts';
import { harness } from './harness.ts';

profileStoreConformance(harness);
