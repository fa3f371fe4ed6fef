// Runs alone in the long form: it kills who works 80 times.
import { describeEventLog } from './event-log.conformance.ts';
import { harness } from './sqlite-harness.ts';

describeEventLog('SQLite', harness);
