import { describe } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { harness } from './kafka-harness.ts';
import { describeRewrite } from './rewrite.conformance.ts';

/**
 * Each step leaves the same log content on every adapter. The suite of the embedded log covers all steps in
 * the short form too.
 */
const STEPS = process.env.TRIBUTARY_TEST_LONG === undefined ? ['ended', 'dropped'] : undefined;

describe.skipIf(engines() === undefined)('on the Kafka of the run', () => describeRewrite(harness, STEPS));
