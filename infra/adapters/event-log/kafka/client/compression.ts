import { promisify } from 'node:util';
import { gunzip, zstdDecompress } from 'node:zlib';
import kafkajs from 'kafkajs';
import lz4 from 'lz4js';
import snappy from 'snappyjs';

const { CompressionCodecs, CompressionTypes } = kafkajs;

type Decompress = (bytes: Buffer) => Promise<Buffer>;

/** A snappy stream of Kafka's Java client begins so; two int32 follow, the versions that wrote it and can read it. */
const STREAM_MARK = Buffer.from([0x82, ...Buffer.from('SNAPPY'), 0]);
const STREAM_HEADER_BYTES = STREAM_MARK.length + 8;

/** Each block of the stream has its size before it. */
const SIZE_BYTES = 4;

const fromSnappy: Decompress = async (bytes) => unsnap(bytes);
const fromLz4: Decompress = async (bytes) => asBuffer(lz4.decompress(bytes));
const fromZstd: Decompress = promisify(zstdDecompress);

/** By the codec's number in the attributes of a batch. */
const DECOMPRESS = new Map<number, Decompress>([
  [CompressionTypes.GZIP, promisify(gunzip)],
  [CompressionTypes.Snappy, fromSnappy],
  [CompressionTypes.LZ4, fromLz4],
  [CompressionTypes.ZSTD, fromZstd],
]);

/**
 * Tributary compresses with zstd and gzip alone, but brokers use others where a topic or the cluster has a
 * `compression.type`, and so do tools that copy topics.
 */
export function decompressed(codec: number, bytes: Buffer): Promise<Buffer> {
  const decompress = DECOMPRESS.get(codec);
  if (decompress === undefined) throw new Error(`a batch is compressed with the unknown codec ${codec}`);
  return decompress(bytes);
}

// kafkajs reads batches itself where a broker lacks our version of Fetch, and has a codec for gzip alone.
CompressionCodecs[CompressionTypes.Snappy] = codecOf(fromSnappy);
CompressionCodecs[CompressionTypes.LZ4] = codecOf(fromLz4);
CompressionCodecs[CompressionTypes.ZSTD] = codecOf(fromZstd);

function codecOf(decompress: Decompress) {
  const compress = () => Promise.reject(new Error('kafkajs compresses nothing here'));
  return () => ({ compress, decompress });
}

/** A stream of blocks, as Java writes it, or a block alone, as librdkafka does. */
function unsnap(bytes: Buffer): Buffer {
  if (!bytes.subarray(0, STREAM_MARK.length).equals(STREAM_MARK)) return snappy.uncompress(bytes);
  const blocks: Buffer[] = [];
  for (let at = STREAM_HEADER_BYTES; at < bytes.length; ) {
    const block = at + SIZE_BYTES;
    at = block + bytes.readInt32BE(at);
    blocks.push(snappy.uncompress(bytes.subarray(block, at)));
  }
  return Buffer.concat(blocks);
}

function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
