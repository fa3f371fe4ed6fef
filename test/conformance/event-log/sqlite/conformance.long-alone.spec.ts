// Runs alone in the long form: it kills who works 80 times.
import { describeEventLog } from '../suite/event-log.conformance.ts';
import { harness } from './harness.ts';

describeEventLog('SQLite', harness);
