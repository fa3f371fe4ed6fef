import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';

const PRODUCE = 0;
const METADATA = 3;
const API_VERSIONS = 18;

/** The supported version of each request. */
const VERSIONS = new Map([
  [PRODUCE, 3],
  [METADATA, 1],
  [API_VERSIONS, 2],
]);

const NOT_LEADER_FOR_PARTITION = 6;
const SIZE_BYTES = 4;

/**
 * A simulated cluster without storage: it has a leader for each partition of every topic, and counts records.
 */
export interface PlayedCluster {
  readonly brokers: readonly PlayedBroker[];
  /** By partition: the index of the leader. */
  readonly leaders: number[];
  close(): Promise<void>;
}

export async function playCluster(leaders: readonly number[]): Promise<PlayedCluster> {
  const ends = new Map<string, number>();
  const brokers: PlayedBroker[] = [];
  const cluster = {
    brokers,
    leaders: [...leaders],
    async close() {
      await Promise.all(brokers.map((broker) => broker.close()));
    },
  };
  for (let i = 0; i <= Math.max(...leaders); i++) brokers.push(await PlayedBroker.start(i, cluster, ends));
  return cluster;
}

/**
 * A simulated broker that answers the requests of an append, and can fall silent, which no real broker does
 * on request.
 */
export class PlayedBroker {
  readonly #index: number;
  readonly #cluster: PlayedCluster;
  readonly #ends: Map<string, number>;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #dropped = new WeakSet<Socket>();
  /** Connections taken so far. */
  connections = 0;
  /** Accepts connections and never answers. */
  silent = false;

  private constructor(index: number, cluster: PlayedCluster, ends: Map<string, number>) {
    this.#index = index;
    this.#cluster = cluster;
    this.#ends = ends;
    this.#server = createServer((socket) => this.#serve(socket));
  }

  static async start(
    index: number,
    cluster: PlayedCluster,
    ends: Map<string, number>,
  ): Promise<PlayedBroker> {
    const broker = new PlayedBroker(index, cluster, ends);
    broker.#server.listen(0, '127.0.0.1');
    await once(broker.#server, 'listening');
    return broker;
  }

  get port(): number {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('a TCP server has a port');
    return address.port;
  }

  /**
   * Silently drops open connections, as a firewall does that forgets its state. New connections still work.
   */
  dropSilently(): void {
    for (const socket of this.#sockets) this.#dropped.add(socket);
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #serve(socket: Socket): void {
    this.connections++;
    this.#sockets.add(socket);
    socket.on('error', () => {}); // cut on purpose
    socket.on('close', () => this.#sockets.delete(socket));
    let received = Buffer.alloc(0);
    socket.on('data', (bytes) => {
      if (this.silent || this.#dropped.has(socket)) return;
      received = Buffer.concat([received, bytes]);
      while (received.length >= SIZE_BYTES && received.length >= SIZE_BYTES + received.readInt32BE()) {
        const size = received.readInt32BE();
        const answer = this.#answer(new Reading(received.subarray(SIZE_BYTES, SIZE_BYTES + size)));
        received = received.subarray(SIZE_BYTES + size);
        socket.write(Buffer.concat([int32(answer.length), answer]));
      }
    });
  }

  #answer(request: Reading): Buffer {
    const apiKey = request.int16();
    const version = request.int16();
    const correlationId = int32(request.int32());
    request.text(); // the client's id
    if (version !== VERSIONS.get(apiKey)) throw new Error(`request ${apiKey} in version ${version}`);
    if (apiKey === API_VERSIONS) return Buffer.concat([correlationId, apiVersions()]);
    if (apiKey === METADATA) return Buffer.concat([correlationId, this.#metadata(request)]);
    return Buffer.concat([correlationId, this.#produce(request)]);
  }

  #metadata(request: Reading): Buffer {
    const topics = request.array(() => request.text());
    const { brokers, leaders } = this.#cluster;
    return Buffer.concat([
      array(brokers, ({ port }, i) => [int32(i), text('127.0.0.1'), int32(port), text(null)]),
      int32(0),
      array(topics, (topic) => [
        int16(0),
        text(topic),
        int8(0),
        array(leaders, (leader, partition) => [
          int16(0),
          int32(partition),
          int32(leader),
          array([leader], (replica) => [int32(replica)]),
          array([leader], (inSync) => [int32(inSync)]),
        ]),
      ]),
    ]);
  }

  #produce(request: Reading): Buffer {
    request.text(); // transactional id
    request.int16(); // acks
    request.int32(); // timeout
    const topics = request.array(() => ({
      topic: request.text(),
      partitions: request.array(() => {
        const partition = request.int32();
        return { partition, batch: request.bytes() };
      }),
    }));
    return Buffer.concat([
      array(topics, ({ topic, partitions }) => [
        text(topic),
        array(partitions, ({ partition, batch }) => {
          const leads = this.#cluster.leaders[partition] === this.#index;
          const base = leads ? this.#written(`${topic}/${partition}`, recordsIn(batch)) : -1;
          return [int32(partition), int16(leads ? 0 : NOT_LEADER_FOR_PARTITION), int64(base), int64(-1)];
        }),
      ]),
      int32(0), // throttle time
    ]);
  }

  #written(partition: string, records: number): number {
    const base = this.#ends.get(partition) ?? 0;
    this.#ends.set(partition, base + records);
    return base;
  }
}

/**
 * The number of records in a batch: the layout is in
 * `infra/adapters/event-log/kafka/record-batch.ts`.
 */
function recordsIn(batch: Buffer): number {
  return batch.readInt32BE(57);
}

function apiVersions(): Buffer {
  const versions = array([...VERSIONS], ([apiKey, version]) => [
    int16(apiKey),
    int16(version),
    int16(version),
  ]);
  return Buffer.concat([int16(0), versions, int32(0)]);
}

class Reading {
  readonly #from: Buffer;
  #at = 0;

  constructor(from: Buffer) {
    this.#from = from;
  }

  int16(): number {
    this.#at += 2;
    return this.#from.readInt16BE(this.#at - 2);
  }

  int32(): number {
    this.#at += 4;
    return this.#from.readInt32BE(this.#at - 4);
  }

  text(): string {
    const length = Math.max(0, this.int16());
    this.#at += length;
    return this.#from.toString('utf8', this.#at - length, this.#at);
  }

  bytes(): Buffer {
    const length = this.int32();
    this.#at += length;
    return this.#from.subarray(this.#at - length, this.#at);
  }

  array<T>(read: () => T): T[] {
    return Array.from({ length: this.int32() }, read);
  }
}

function int8(value: number): Buffer {
  const bytes = Buffer.alloc(1);
  bytes.writeInt8(value);
  return bytes;
}

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeInt16BE(value);
  return bytes;
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

function int64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(BigInt(value));
  return bytes;
}

function text(value: string | null): Buffer {
  return value === null ? int16(-1) : Buffer.concat([int16(Buffer.byteLength(value)), Buffer.from(value)]);
}

function array<T>(of: readonly T[], write: (one: T, i: number) => readonly Buffer[]): Buffer {
  return Buffer.concat([int32(of.length), ...of.flatMap(write)]);
}
