import { connect, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** A connection of a client that writes and reads bytes. */
export interface RawConnection {
  readonly socket: Socket;
  answer(): string;
  isOver(): boolean;
}

export function open(port: number, localAddress = '127.0.0.1'): Promise<RawConnection> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    let text = '';
    let over = false;
    socket.on('data', (chunk) => {
      text += chunk.toString('utf8');
    });
    socket.on('error', reject);
    socket.on('close', () => {
      over = true;
    });
    socket.on('end', () => {
      over = true;
    });
    socket.on('connect', () => resolve({ socket, answer: () => text, isOver: () => over }));
    onTestFinished(() => void socket.destroy());
  });
}
