import { describe } from 'vitest';
import { engines } from '../../helpers/engines.ts';
import { harness } from './kafka-log-harness.ts';
import { describeRewrite } from './log-rewrite.ts';

describe.skipIf(engines() === undefined)('on the Kafka of the run', () => describeRewrite(harness));
