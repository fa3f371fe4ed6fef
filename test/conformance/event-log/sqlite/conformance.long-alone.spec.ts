// Runs alone in the long form: it kills the processor 80 times.
import { describeEventLog } from '../suite/event-log.conformance.ts';
import { harness } from './harness.ts';

describeEventLog('SQLite', harness);
