import { once } from 'node:events';
import { connect } from 'node:net';

const TIMEOUT_MS = 1_000;

/** True when the server has loaded its data and answers PING. */
export async function answersRedis(address: string): Promise<boolean> {
  const { hostname, port } = new URL(`redis://${address}`);
  const socket = connect({ host: hostname, port: Number(port) });
  socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error('no answer to PING')));
  try {
    socket.write('PING\r\n');
    const [answer] = await once(socket, 'data');
    return String(answer).startsWith('+PONG');
  } finally {
    socket.destroy();
  }
}
