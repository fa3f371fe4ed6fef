import type { Socket } from 'node:net';
import { readServerFirst, ScramRefused } from '@tributary/core';
import pg from 'pg';
import { boundedAnswers, inspectAnswers } from '../egress/inspected-answers.ts';
import { keyDerivations } from '../thread-turns.ts';
import { postgresAnswers } from './answers.ts';

const MAX_UNASKED_BYTES = 1_024 * 1_024;

/** pg's own answer to the first message of a server that speaks SCRAM. */
type ContinueScram = (message: { readonly data: string }) => Promise<void>;

/**
 * A client of pg whose server is held to bounds: its messages are looked at before pg parses them, also below TLS, and
 * the key that SCRAM needs is derived with an accepted number of iterations, one at a time in the process.
 */
export function boundedClient(workspaceId: string, isEncrypted: boolean): typeof pg.Client {
  return class BoundedClient extends pg.Client {
    constructor(config?: pg.ClientConfig) {
      super(config);
      const { connection } = this;
      const attach: (stream: Socket) => void = Reflect.get(connection, 'attachListeners').bind(connection);
      const attachInspected = (stream: Socket) => {
        const bounded = boundedAnswers(stream, MAX_UNASKED_BYTES);
        const messages = postgresAnswers({ isEncrypted });
        attach(
          inspectAnswers(stream, function* inspect(chunk) {
            for (const some of bounded(chunk)) yield* messages(some);
          }),
        );
      };
      Object.defineProperty(connection, 'attachListeners', { value: attachInspected });
    }

    async _handleAuthSASLContinue(message: { readonly data: string }): Promise<void> {
      const { connection } = this;
      try {
        const proceed: ContinueScram = Reflect.get(pg.Client.prototype, '_handleAuthSASLContinue');
        readServerFirst(message.data);
        await keyDerivations.take(
          workspaceId,
          () => !connection.stream.destroyed,
          () => proceed.call(this, message),
        );
      } catch (error) {
        const isRefused = error instanceof ScramRefused;
        connection.emit('error', isRefused ? new Error(`SCRAM: ${error.message}`, { cause: error }) : error);
      }
    }
  };
}
