import { type KeyObject, sign } from 'node:crypto';
import type { JsonObject } from '@tributary/core';
import type { Agent } from 'undici';
import { Deadlines } from '../client/deadlines.ts';
import { classifyFailure, type HttpRequest, openAgent, sendRequest } from '../http/client.ts';
import type { ConnectorContext } from '../kind.ts';
import { failedCall } from './tables.ts';

interface ApiOptions {
  readonly maxResponseBytes: number;
  /** How long a call may take, ms. */
  readonly timeoutMs: number;
  /** What reasons begin with. */
  readonly about?: string;
}

/** The HTTP API of a warehouse or a catalog, through the egress guard. Redirects are not followed. */
export class HttpApi {
  readonly #agent: Agent;
  readonly #deadlines: Deadlines;
  readonly #options: ApiOptions;

  constructor(context: ConnectorContext, options: ApiOptions) {
    this.#agent = openAgent(context, options.maxResponseBytes);
    this.#deadlines = new Deadlines(options.timeoutMs);
    this.#options = options;
  }

  /**
   * Resolves with a response of any status; its body may be cut (`whole`). Rejects with `Unavailable` where the outcome of the
   * request is not known.
   */
  async send(request: HttpRequest, signal: AbortSignal, deadlines = this.#deadlines) {
    const { maxResponseBytes, about = '' } = this.#options;
    const deadline = deadlines.begin(signal);
    try {
      return await sendRequest(this.#agent, request, deadline, maxResponseBytes);
    } catch (error) {
      throw failedCall(classifyFailure(deadline.reason ?? error), error, about);
    } finally {
      deadlines.end(deadline);
    }
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }
}

/** A token (JWT) that the private key of an account signs. */
export function signedToken(key: KeyObject, header: JsonObject, claims: JsonObject): string {
  const parts = [{ alg: 'RS256', typ: 'JWT', ...header }, claims].map((part) =>
    Buffer.from(JSON.stringify(part)).toString('base64url'),
  );
  return [...parts, sign('sha256', Buffer.from(parts.join('.')), key).toString('base64url')].join('.');
}
