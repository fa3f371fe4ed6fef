import { harness } from './log-harness.ts';
import { describeRewrite } from './log-rewrite.ts';

describeRewrite(harness);
