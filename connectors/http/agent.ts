import { MAX_CONCURRENCY } from '@tributary/core';
import { Agent } from 'undici';
import type { ConnectorContext } from '../kind.ts';
import { verdictOfFailure } from './verdict.ts';

/** An idle connection is kept this long, ms, unless the destination says less. */
const KEEP_ALIVE_MS = 10_000;

/** Of an answer, with its headers, the interim answers before it and what frames its chunks; far above what is kept. */
const MAX_ANSWER_BYTES = 256 * 1_024;

/** Destinations that speak HTTP and keep their connections although nobody uses them. */
const MAX_AGENTS = 1_000;

/** What is the same for every kind that is spoken to over HTTP: a failure costs a connection, never all of them. */
export function overHttp(context: ConnectorContext, maxAnswerBytes = MAX_ANSWER_BYTES) {
  return {
    open: async () => openAgent(context, maxAnswerBytes),
    maxClients: MAX_AGENTS,
    outlives: () => true,
    verdictOfFailure,
  };
}

/** The connections of one destination, through the egress guard. */
function openAgent({ egress, timeoutMs }: ConnectorContext, maxAnswerBytes: number): Agent {
  return new Agent({
    connect: egress.connector(timeoutMs, maxAnswerBytes),
    // One for each of the calls that are made to a destination at a time; they are opened as they are needed.
    connections: MAX_CONCURRENCY,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // The deadline of the whole call ends slow headers and slow bodies.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
}
