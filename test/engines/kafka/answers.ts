import { once } from 'node:events';
import { connect } from 'node:net';

const TIMEOUT_MS = 1_000;
const METADATA = 3;
/** The oldest version that brokers of every release in use support. */
const METADATA_VERSION = 4;

/** True once the broker answers clients and lists itself among the brokers of the cluster. */
export async function answersKafka(broker: string): Promise<boolean> {
  const { hostname, port } = new URL(`kafka://${broker}`);
  const socket = connect({ host: hostname, port: Number(port) });
  socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error('no answer to a metadata request')));
  try {
    socket.write(metadataOfNoTopic());
    const [answer] = await once(socket, 'data');
    return countBrokers(answer) > 0;
  } finally {
    socket.destroy();
  }
}

function metadataOfNoTopic(): Buffer {
  const request = Buffer.alloc(19);
  request.writeInt32BE(15, 0); // length
  request.writeInt16BE(METADATA, 4);
  request.writeInt16BE(METADATA_VERSION, 6);
  request.writeInt32BE(1, 8); // correlation id
  request.writeInt16BE(-1, 12); // no client id
  request.writeInt32BE(0, 14); // no topics
  request.writeInt8(0, 18); // create none
  return request;
}

/** After the length, the correlation id and the throttle time comes the array of brokers. */
function countBrokers(answer: unknown): number {
  return Buffer.isBuffer(answer) && answer.length >= 16 ? answer.readInt32BE(12) : 0;
}
