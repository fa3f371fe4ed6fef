import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { FairBudget } from '@tributary/core';
import { ownersByAddress } from './client-address.ts';
import { parseIpAddress } from './ip-address.ts';

/** The connections of a server. */
export interface BoundConnections {
  /** Notes the latest answer of a connection, which says whether the connection is at work. */
  answering(response: ServerResponse): void;
}

/**
 * Bounds the connections of a server and divides them fairly between the addresses at the other end. One address may
 * have all of them, as it may be a proxy, until another one comes that has less than its share: then a connection of the
 * former is closed, the oldest that is idle, still sends its request, or was answered and does not read. A connection whose
 * request is at work is never closed; one more of an address that has its share is closed as it comes.
 */
export function boundConnections(server: Server, maxConnections: number): BoundConnections {
  const budget = new FairBudget({ capacity: maxConnections, largestShare: 1 });
  const latest = new WeakMap<Socket, ServerResponse>();

  function isAtWork(socket: Socket): boolean {
    const response = latest.get(socket);
    return response?.req.complete === true && !response.writableEnded;
  }

  server.on('connection', (socket: Socket) => {
    // Without an address the client is gone already.
    const address = parseIpAddress(socket.remoteAddress ?? '');
    const permit =
      address &&
      budget.open(ownersByAddress(address), {
        mayEnd: () => !isAtWork(socket),
        onEnded: () => socket.destroy(),
      });
    if (permit?.resize(1) === true) socket.once('close', permit.release);
    else socket.destroy();
  });
  return {
    answering(response) {
      if (response.socket !== null) latest.set(response.socket, response);
    },
  };
}
