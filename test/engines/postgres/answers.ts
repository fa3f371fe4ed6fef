import { once } from 'node:events';
import { connect } from 'node:net';

const TIMEOUT_MS = 1_000;
const PROTOCOL = 3 << 16;

/** True when the server asks a new client to sign in; during its start it refuses clients. */
export async function answersPostgres(address: string): Promise<boolean> {
  const { hostname, port } = new URL(`tcp://${address}`);
  const socket = connect({ host: hostname, port: Number(port) });
  socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error('no answer')));
  try {
    socket.write(startup('nobody'));
    const [answer] = await once(socket, 'data');
    return String(answer).startsWith('R');
  } finally {
    socket.destroy();
  }
}

function startup(user: string): Buffer {
  const parameters = Buffer.from(`user\0${user}\0\0`);
  const header = Buffer.alloc(8);
  header.writeInt32BE(header.length + parameters.length, 0);
  header.writeInt32BE(PROTOCOL, 4);
  return Buffer.concat([header, parameters]);
}
