import { afterAll } from 'vitest';
import { openTestGateway, type TestGateway, type TestGatewayOptions } from '../helpers/gateway.ts';

/** The gateway of a file of tests, closed after them. */
export async function suiteGateway(options: TestGatewayOptions = {}): Promise<TestGateway> {
  const gateway = await openTestGateway(options);
  afterAll(() => gateway.close());
  return gateway;
}
