// Runs alone in the long form: it kills the processor 80 times.
import { afterAll, beforeAll, describe } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { describeEventLog } from '../suite/event-log.conformance.ts';
import { harness, startBroker, stopBroker } from './installation/harness.ts';

describe.skipIf(engines() === undefined)('on the real engine', () => {
  beforeAll(startBroker);
  afterAll(stopBroker);
  describeEventLog('Kafka', harness);
});
