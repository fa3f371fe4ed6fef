import { type AgentOptions, Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { Socket } from 'node:net';
import { MAX_CONCURRENCY } from '@tributary/core';
import { answerHeads } from '../egress/answer-heads.ts';
import type { Connections } from '../egress/connections.ts';
import { boundedAnswers, inspectAnswers } from '../egress/inspected-answers.ts';

/** A connection for each call that is made at a time; they are opened as they are needed. */
const OPTIONS: AgentOptions = { keepAlive: true, maxSockets: MAX_CONCURRENCY };

/** Of an answer with its headers, the interim answers before it and what frames its chunks. */
const MAX_ANSWER_BYTES = 256 * 1_024;

function bounded(socket: Socket): Socket {
  const count = boundedAnswers(socket, MAX_ANSWER_BYTES);
  const heads = answerHeads(socket);
  return inspectAnswers(socket, function* inspect(chunk) {
    for (const some of count(chunk)) yield* heads(some);
  });
}

interface Target {
  readonly host?: string | null | undefined;
  readonly port?: string | number | null | undefined;
}

/** Agents of the standard library that connect through the egress guard. */
export function guardedAgents(connections: Connections) {
  class Http extends HttpAgent {
    override createConnection({ host, port }: Target) {
      return bounded(connections.connect({ host: host ?? '', port: Number(port ?? 80) }));
    }
  }
  class Https extends HttpsAgent {
    override createConnection({ host, port }: Target) {
      return bounded(connections.connect({ host: host ?? '', port: Number(port ?? 443), tls: {} }));
    }
  }
  return { httpAgent: new Http(OPTIONS), httpsAgent: new Https(OPTIONS) };
}
