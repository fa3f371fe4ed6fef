import { harness } from './harness.ts';
import { describeRewrite } from './rewrite.conformance.ts';

describeRewrite(harness);
