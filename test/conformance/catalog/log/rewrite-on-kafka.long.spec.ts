import { describe } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { harness } from './kafka-harness.ts';
import { describeRewrite } from './rewrite.conformance.ts';

describe.skipIf(engines() === undefined)('on the Kafka of the run', () => describeRewrite(harness));
