/**
 * Frames on a pipe: `u32 length of the rest | u32 length of the head | head | body`, both texts in UTF-8.
 * The body is one long text that both sides cut by lengths the head tells, so that JSON texts travel unescaped.
 */
export interface Frame {
  readonly head: string;
  readonly body: string;
}

/**
 * Larger than anything either side sends: about a mebibyte of outputs and the last event's, 100 of 32 KiB. A longer frame
 * means the other side cannot be trusted.
 */
const MAX_FRAME_BYTES = 32 * 1024 * 1024;
const LENGTH_BYTES = 4;

export function encodeFrame({ head, body }: Frame): Buffer {
  const headBytes = Buffer.byteLength(head);
  const bodyBytes = Buffer.byteLength(body);
  const frame = Buffer.allocUnsafe(2 * LENGTH_BYTES + headBytes + bodyBytes);
  frame.writeUInt32LE(LENGTH_BYTES + headBytes + bodyBytes, 0);
  frame.writeUInt32LE(headBytes, LENGTH_BYTES);
  frame.write(head, 2 * LENGTH_BYTES);
  frame.write(body, 2 * LENGTH_BYTES + headBytes);
  return frame;
}

/** Puts frames together from the pieces a pipe delivers. */
export class FrameReader {
  #pieces: Buffer[] = [];
  #size = 0;
  /** Bytes of the frame under way with its length; undefined before its length is known. */
  #wanted: number | undefined;

  /** The frames completed by this piece, in order. Throws `RangeError` when the stream is no stream of frames. */
  push(piece: Buffer): readonly Frame[] {
    this.#pieces.push(piece);
    this.#size += piece.length;
    const frames: Frame[] = [];
    for (let frame = this.#next(); frame !== undefined; frame = this.#next()) frames.push(frame);
    return frames;
  }

  #next(): Frame | undefined {
    this.#wanted ??= this.#lengthOfNext();
    if (this.#wanted === undefined || this.#size < this.#wanted) return undefined;
    const all = this.#joined();
    const frame = decodeFrame(all.subarray(LENGTH_BYTES, this.#wanted));
    this.#pieces = [all.subarray(this.#wanted)];
    this.#size -= this.#wanted;
    this.#wanted = undefined;
    return frame;
  }

  #lengthOfNext(): number | undefined {
    if (this.#size < LENGTH_BYTES) return undefined;
    const length = this.#joined().readUInt32LE(0);
    if (length > MAX_FRAME_BYTES) throw new RangeError(`a frame of ${length} bytes`);
    return LENGTH_BYTES + length;
  }

  #joined(): Buffer {
    const [first] = this.#pieces;
    if (this.#pieces.length === 1 && first !== undefined) return first;
    const all = Buffer.concat(this.#pieces, this.#size);
    this.#pieces = [all];
    return all;
  }
}

function decodeFrame(rest: Buffer): Frame {
  if (rest.length < LENGTH_BYTES) throw new RangeError(`a frame without a head`);
  const headEnd = LENGTH_BYTES + rest.readUInt32LE(0);
  if (headEnd > rest.length) throw new RangeError('a head longer than its frame');
  return { head: rest.toString('utf8', LENGTH_BYTES, headEnd), body: rest.toString('utf8', headEnd) };
}
