import { describe } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { harness } from './kafka-harness.ts';
import { describeRewrite } from './rewrite.conformance.ts';

/** What a step leaves in the log is the same in each; the suite of the embedded one takes them all in the short form too. */
const STEPS = process.env.TRIBUTARY_TEST_LONG === undefined ? ['ended', 'dropped'] : undefined;

describe.skipIf(engines() === undefined)('on the Kafka of the run', () => describeRewrite(harness, STEPS));
