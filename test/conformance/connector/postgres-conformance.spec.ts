import { afterAll, describe } from 'vitest';
import { postgresServer } from '../../helpers/postgres.ts';
import { connectorConformance } from './connector.conformance.ts';
import { noEngine } from './harness.ts';
import { networkConformance } from './network.conformance.ts';
import { postgresHarness, spoil } from './postgres-harness.ts';

const server = await postgresServer();
const harness = () => (server === undefined ? noEngine('postgres') : postgresHarness(server));

describe.skipIf(server === undefined)('on a real engine', () => {
  afterAll(() => server?.stop());
  connectorConformance('postgres', harness);
  networkConformance('postgres', harness, spoil);
});
