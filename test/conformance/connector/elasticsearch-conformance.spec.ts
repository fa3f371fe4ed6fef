import { describe } from 'vitest';
import { engines } from '../../helpers/engines.ts';
import { connectorConformance } from './connector.conformance.ts';
import { elasticsearchHarness, spoil } from './elasticsearch-harness.ts';
import { networkConformance } from './network.conformance.ts';

describe.skipIf(engines() === undefined)('on a real engine', () => {
  connectorConformance('elasticsearch', elasticsearchHarness);
  networkConformance('elasticsearch', elasticsearchHarness, spoil);
});
