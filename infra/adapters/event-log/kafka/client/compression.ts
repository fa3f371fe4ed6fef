import { promisify } from 'node:util';
import { zstdDecompress } from 'node:zlib';
import kafkajs from 'kafkajs';
import lz4 from 'lz4js';
import snappy from 'snappyjs';

const { CompressionCodecs, CompressionTypes } = kafkajs;

/** Java's snappy streams begin so; then come two numbers that say which versions can read it. */
const STREAM_MARK = Buffer.from([0x82, ...Buffer.from('SNAPPY'), 0]);
const STREAM_HEADER_BYTES = STREAM_MARK.length + 8;

/** The size of a block comes before it. */
const SIZE_BYTES = 4;

/**
 * kafkajs 2.2.4 reads gzip alone. Tributary compresses nothing, but brokers do where a topic or the cluster has a
 * `compression.type`, and so do the tools that copy topics: one such batch held up all that was read of its broker.
 */
CompressionCodecs[CompressionTypes.Snappy] = reading(async (bytes) => unsnap(bytes));
CompressionCodecs[CompressionTypes.LZ4] = reading(async (bytes) => asBuffer(lz4.decompress(bytes)));
CompressionCodecs[CompressionTypes.ZSTD] = reading(promisify(zstdDecompress));

function reading(decompress: (bytes: Buffer) => Promise<Buffer>) {
  const compress = () => Promise.reject(new Error('nothing is compressed here'));
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
