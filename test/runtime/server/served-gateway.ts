import { startServer } from '@tributary/infra';
import { afterAll, onTestFinished } from 'vitest';
import { openTestGateway, type TestGateway } from '../../helpers/gateway.ts';

type ServerSettings = Parameters<typeof startServer>[0];

/** A gateway with a workspace and a write key, for a file of tests that each serve it with settings of their own. */
export async function openServedGateway() {
  const gateway = await openTestGateway();
  afterAll(() => gateway.close());
  const owner = await gateway.openWorkspace();
  const wanted = { name: 'k', environment: 'production' };
  const { key: writeKey } = await owner.ok<{ key: string }>('POST', './event-keys', wanted);

  async function serve(
    settings: Partial<ServerSettings> = {},
    others: Partial<TestGateway['dependencies']> = {},
  ) {
    const { url, close } = await startServer(
      { host: '127.0.0.1', port: 0, trustProxy: [], ...settings },
      { ...gateway.dependencies, ...others },
      { readiness: () => ({ ready: true, checks: {} }) },
    );
    onTestFinished(close);
    return { url, port: Number(new URL(url).port), close };
  }
  return { gateway, owner, writeKey, serve };
}
