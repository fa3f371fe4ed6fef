declare module 'lz4js' {
  const lz4: {
    /** Of one frame. Throws for what is none. */
    decompress(frame: Uint8Array): Uint8Array;
  };
  export default lz4;
}

declare module 'snappyjs' {
  const snappy: {
    /** Of one block. Throws for what is none. */
    uncompress(block: Buffer): Buffer;
    compress(bytes: Buffer): Buffer;
  };
  export default snappy;
}
