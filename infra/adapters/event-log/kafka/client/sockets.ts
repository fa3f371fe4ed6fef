import type { Socket } from 'node:net';
import socketFactory from 'kafkajs/src/network/socketFactory.js';

/**
 * The sockets of one client. kafkajs closes a connection only once every answer came or timed out, and waits for those
 * of an authentication without an end: cut sockets make it give all of them up.
 */
export class Sockets {
  /** With the broker of each, as `host:port`. */
  readonly #open = new Map<Socket, string>();
  #closed = false;

  /** For kafkajs. */
  readonly factory = (options: Parameters<ReturnType<typeof socketFactory>>[0]): Socket => {
    const socket = socketFactory()(options);
    this.#open.set(socket, `${options.host}:${options.port}`);
    socket.once('close', () => this.#open.delete(socket));
    if (this.#closed) setImmediate(() => cut(socket)); // once kafkajs listens to it
    return socket;
  };

  /** Cuts what is open, to all brokers or to the one at `host:port`. */
  cut(broker?: string): void {
    for (const [socket, to] of this.#open) if (broker === undefined || broker === to) cut(socket);
  }

  /** Cuts what is open, and whatever opens from now on. */
  close(): void {
    this.#closed = true;
    this.cut();
  }
}

/** An authentication listens to the end alone, a connect and requests under way to an error. */
function cut(socket: Socket): void {
  socket.emit('end');
  socket.destroy(new Error('the connection was given up'));
}
