import { Client } from '../helpers/client.ts';
import type { Installation } from './installation.ts';
import { type BenchProcess, startProcess } from './process.ts';

interface GatewayHello {
  readonly url: string;
  readonly workspaceId: string;
  readonly writeKey: string;
  readonly idToken: string;
}

export interface BenchGateway extends BenchProcess<GatewayHello> {
  /** Calls as the owner of its workspace, in it. */
  readonly owner: Client;
  /** Calls with its write key. */
  readonly producer: Client;
}

/** A gateway of the installation in a process of its own, with a workspace and a write key. */
export async function startGateway({ env }: Installation): Promise<BenchGateway> {
  const started = await startProcess<GatewayHello>('./gateway-process.ts', env);
  const { url, idToken, workspaceId, writeKey } = started.hello;
  const owner = new Client(url, idToken, workspaceId);
  return { ...started, owner, producer: owner.with({ token: writeKey }) };
}
