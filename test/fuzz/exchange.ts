import { connect, type Socket } from 'node:net';

/** The longest wait for an answer before the connection is closed, ms. */
const PATIENCE_MS = 5_000;

/** Sends bytes over a new connection; returns the statuses received until it was closed, maybe none. */
export function exchange(port: number, bytes: Buffer): Promise<readonly number[]> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port });
    const chunks: Buffer[] = [];
    const finish = () => {
      clearTimeout(timer);
      resolve(statusesIn(Buffer.concat(chunks).toString('latin1')));
    };
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error(`neither answered nor closed within ${PATIENCE_MS} ms`));
    }, PATIENCE_MS);
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('error', () => {}); // closed by the server during the send
    socket.on('close', finish);
    socket.write(bytes);
  });
}

function statusesIn(answers: string): readonly number[] {
  return [...answers.matchAll(/^HTTP\/1\.1 (\d{3}) /gm)].map(([, status]) => Number(status));
}

/** Connections that never finish sending: endless headers, a body byte by byte, or nothing at all. */
export function openLingering(port: number, path: string, many: number): { close(): void } {
  const starts = [
    '',
    `POST ${path} HTTP/1.1\r\nhost: x\r\n`,
    `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: 99999\r\n\r\n{`,
  ];
  const sockets = Array.from({ length: many }, (_, at): Socket => {
    const socket = connect({ host: '127.0.0.1', port });
    socket.on('error', () => {});
    socket.write(starts[at % starts.length] ?? '');
    return socket;
  });
  const dripping = setInterval(() => {
    sockets.forEach((socket, at) => {
      if (at % starts.length === 2 && socket.writable) socket.write(' ');
    });
  }, 200);
  return {
    close() {
      clearInterval(dripping);
      for (const socket of sockets) socket.destroy();
    },
  };
}
