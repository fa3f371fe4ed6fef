import type { Socket } from 'node:net';
import { MAX_CONCURRENCY } from '@tributary/core';
import type { Inspect } from '../egress/inspected-answers.ts';
import { AnswerRefused, TooMuchAnswered } from '../errors.ts';

/** A reply is a line: an error of a script may quote some of it. */
const MAX_LINE_BYTES = 16 * 1_024;

/** Since something was last written: as many commands as calls are made at a time, and a few to sign in. */
const MAX_LINES = 2 * MAX_CONCURRENCY;

const LINE_FEED = 0x0a;
/** `+`, `-` and `:`: a status, an error and a number. */
const EXPECTED = new Set([0x2b, 0x2d, 0x3a]);

/**
 * Lets the replies through that the commands of this connector have: all of one line. Lists (which a server may nest
 * without end, or announce with any length), texts of any length and pushes are none of them.
 */
export function redisAnswers(socket: Socket): Inspect {
  let inLine = 0;
  let written = 0;
  let lines = 0;
  return function* inspect(chunk) {
    if (socket.bytesWritten !== written) {
      written = socket.bytesWritten;
      lines = 0;
    }
    for (let at = 0; at < chunk.length; ) {
      const first = chunk[at];
      if (inLine === 0 && (first === undefined || !EXPECTED.has(first)))
        throw new AnswerRefused('the server answers in a form that no command here has');
      const end = chunk.indexOf(LINE_FEED, at);
      inLine += (end === -1 ? chunk.length : end) - at;
      if (inLine > MAX_LINE_BYTES) throw new TooMuchAnswered('the answer is too long');
      if (end === -1) break;
      inLine = 0;
      lines += 1;
      if (lines > MAX_LINES) throw new TooMuchAnswered('the server answers what it was not asked');
      at = end + 1;
    }
    yield chunk;
  };
}
