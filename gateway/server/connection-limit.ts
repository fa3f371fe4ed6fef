import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { FairBudget } from '@tributary/core';
import { ownersByAddress } from './client-address.ts';
import { parseIpAddress } from './ip-address.ts';

/** The connections of a server. */
export interface BoundConnections {
  /** Records the latest response of a connection, which shows whether a request is being processed. */
  onRequest(response: ServerResponse): void;
}

/**
 * Bounds the connections of a server, divided fairly between client addresses. One address may have all of them, as it
 * may be a proxy. When an address below its share connects, the oldest connection of the other is closed that is idle,
 * still sends its request, or does not read its response. A connection whose request is being processed is never closed;
 * a further connection of an address at its share is closed immediately.
 */
export function boundConnections(server: Server, maxConnections: number): BoundConnections {
  const budget = new FairBudget({ capacity: maxConnections, largestShare: 1 });
  const latest = new WeakMap<Socket, ServerResponse>();

  function isProcessing(socket: Socket): boolean {
    const response = latest.get(socket);
    return response?.req.complete === true && !response.writableEnded;
  }

  server.on('connection', (socket: Socket) => {
    // A socket without an address has been closed by the client.
    const address = parseIpAddress(socket.remoteAddress ?? '');
    const permit =
      address &&
      budget.open(ownersByAddress(address), {
        mayEnd: () => !isProcessing(socket),
        onEnded: () => socket.destroy(),
      });
    if (permit?.resize(1) === true) socket.once('close', permit.release);
    else socket.destroy();
  });
  return {
    onRequest(response) {
      if (response.socket !== null) latest.set(response.socket, response);
    },
  };
}
