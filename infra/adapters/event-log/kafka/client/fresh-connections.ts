import type { Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import Connection from 'kafkajs/src/network/connection.js';

/** A size comes before each answer. */
const SIZE_BYTES = 4;

const { connect, disconnect, send } = Connection.prototype;
const connecting = new WeakMap<Connection, Promise<boolean>>();
const cuts = new WeakMap<Socket, Promise<unknown>>();

/**
 * kafkajs 2.2.4 connects the same object again and keeps what it had received of an answer when the connection broke:
 * from then on it takes every answer apart at the wrong place, and no request is ever answered. Two who connect at once
 * have the same effect, since the answers of two sockets are put together.
 */
Connection.prototype.connect = function connectAfresh(this: Connection): Promise<boolean> {
  const known = connecting.get(this);
  if (known !== undefined) return known;
  if (this.isConnected()) return Promise.resolve(true);
  this.chunks = [];
  this.bytesBuffered = 0;
  this.bytesNeeded = SIZE_BYTES;
  const started = connect.call(this).finally(() => connecting.delete(this));
  connecting.set(this, started);
  return started;
};

/** What still comes from a connection that was given up would be taken for the answers of the next one. */
Connection.prototype.disconnect = async function disconnectForGood(this: Connection): Promise<boolean> {
  const { socket } = this;
  try {
    return await disconnect.call(this);
  } finally {
    socket?.destroy();
  }
};

/**
 * Answers come in order, so behind one that does not come there is none: the connection may be half open, which kafkajs
 * would keep. The next request has a new one.
 */
Connection.prototype.send = async function sendOrCut(this: Connection, request: object): Promise<unknown> {
  const { socket } = this;
  try {
    return await send.call(this, request);
  } catch (thrown) {
    const isTimeout = thrown instanceof Error && thrown.name === 'KafkaJSRequestTimeoutError';
    if (isTimeout && socket !== undefined) await cutOnce(this, socket, thrown);
    throw thrown;
  }
};

/** Cuts a connection and resolves once kafkajs, which hears of it by an error, has taken note. */
function cutOnce(connection: Connection, socket: Socket, why: Error): Promise<unknown> {
  const known = cuts.get(socket);
  if (known !== undefined) return known;
  if (socket !== connection.socket || socket.destroyed) return Promise.resolve();
  const closed = new Promise((resolve) => socket.once('close', resolve));
  socket.destroy(why);
  const cut = closed.then(() => turn());
  cuts.set(socket, cut);
  return cut;
}
