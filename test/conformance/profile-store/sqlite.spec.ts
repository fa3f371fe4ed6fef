import { profileStoreConformance } from './profile-store.conformance.ts';
import { harness } from './sqlite-harness.ts';

profileStoreConformance(harness);
