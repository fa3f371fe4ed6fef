import { HeldThread, type Profile, recordOf } from '@tributary/core';
import { invalidRequest } from '../../errors/api-error.ts';

/** Records of one answer at most, bytes: 1,000 values may find a gigabyte. */
export const MAX_FOUND_BYTES = 32 * 1024 * 1024;

/** How long the thread is held, ms. One record is not interrupted. */
const HELD_MS = 2;
/** Of one piece of an answer, about. */
const PIECE_BYTES = 256 * 1024;

/**
 * The JSON list of the profiles' records, in pieces; most answers are one. 400 when it would be longer than `maxBytes`,
 * which is known before the first byte is sent. `reserve` is told how many there are so far, before more are made.
 */
export async function recordTexts(
  profiles: readonly Profile[],
  maxBytes = MAX_FOUND_BYTES,
  reserve: (bytes: number) => void = () => {},
): Promise<readonly Buffer[]> {
  const pieces: Buffer[] = [];
  let piece = '[';
  let bytes = 0;
  const thread = new HeldThread(() => performance.now(), HELD_MS);
  for (const [at, profile] of profiles.entries()) {
    const text = JSON.stringify(recordOf(profile));
    bytes += Buffer.byteLength(text);
    if (bytes > maxBytes)
      throw invalidRequest({
        path: '/search',
        message: `finds more than ${maxBytes} bytes of records: search for fewer values at a time`,
      });
    piece += at === 0 ? text : `,${text}`;
    if (piece.length > PIECE_BYTES) {
      reserve(bytes);
      pieces.push(Buffer.from(piece));
      piece = '';
    }
    if (thread.isDueToRest) await thread.rest();
  }
  reserve(bytes);
  return [...pieces, Buffer.from(`${piece}]`)];
}
