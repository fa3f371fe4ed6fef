import { type AgentOptions, Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { Socket } from 'node:net';
import type { Connections } from './connections.ts';
import { inspectResponses, limitBytes, normalizeHeads } from './response-heads.ts';

interface GuardedAgentOptions {
  /** Connections at a time; opened on demand. */
  readonly maxSockets: number;
  /** Bytes of one response with headers, interim responses and chunk framing. */
  readonly maxResponseBytes: number;
  /** PEM of the authority that signed the certificate, where that is not a public one. */
  readonly ca?: string | undefined;
}

/** Agents of the standard library, for drivers that take one: they connect through the egress guard. */
export function guardedAgents(
  connections: Connections,
  { maxSockets, maxResponseBytes, ca }: GuardedAgentOptions,
) {
  const options: AgentOptions = { keepAlive: true, maxSockets };
  const bounded = (socket: Socket) => {
    const count = limitBytes(socket, maxResponseBytes);
    const heads = normalizeHeads(socket);
    return inspectResponses(socket, function* inspect(chunk) {
      for (const some of count(chunk)) yield* heads(some);
    });
  };
  class Http extends HttpAgent {
    override createConnection({ host, port }: Target) {
      return bounded(connections.connect({ host: host ?? '', port: Number(port ?? 80) }));
    }
  }
  class Https extends HttpsAgent {
    override createConnection({ host, port }: Target) {
      const tls = ca === undefined ? {} : { ca };
      return bounded(connections.connect({ host: host ?? '', port: Number(port ?? 443), tls }));
    }
  }
  return { httpAgent: new Http(options), httpsAgent: new Https(options) };
}

interface Target {
  readonly host?: string | null | undefined;
  readonly port?: string | number | null | undefined;
}
