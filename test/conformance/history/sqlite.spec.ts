import { historyConformance } from './history.conformance.ts';
import { harness } from './sqlite-harness.ts';

historyConformance(harness);
