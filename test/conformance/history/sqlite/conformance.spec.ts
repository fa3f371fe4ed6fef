import { historyConformance } from '../suite/history.conformance.ts';
import { harness } from './harness.ts';

historyConformance(harness);
