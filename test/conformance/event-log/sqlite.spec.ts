import { describeEventLog } from './event-log.conformance.ts';
import { harness } from './sqlite-harness.ts';

describeEventLog('SQLite', harness);
