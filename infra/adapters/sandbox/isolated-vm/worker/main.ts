// The program of a worker process: frames in on stdin, frames out on stdout, user code only inside isolates.
import { writeFileSync } from 'node:fs';
import { encodeFrame, type Frame, FrameReader } from '../frames.ts';
import type { WorkerSettings } from '../limits.ts';
import { parseTask, READY } from '../messages.ts';
import { Isolates } from './isolates.ts';

/** The host is gone, or what it sends makes no sense. A thread may be stuck in user code: only this ends it. */
function die(): never {
  process.kill(process.pid, 'SIGKILL');
  throw new Error('killed');
}

/** When memory runs out, this process goes before anything else on the machine. */
function volunteerForOomKiller(): void {
  try {
    writeFileSync('/proc/self/oom_score_adj', '1000');
  } catch {
    // Not Linux, or not allowed: the host still watches the resident memory.
  }
}

function send(frame: Frame): void {
  process.stdout.write(encodeFrame(frame));
}

volunteerForOomKiller();
const settings = JSON.parse(process.argv[2] ?? '') as WorkerSettings;
const isolates = new Isolates(settings);
const frames = new FrameReader();
let last: Promise<void> = Promise.resolve();

async function work({ head, body }: Frame): Promise<void> {
  send(await isolates.answer(parseTask(head), body));
}

process.stdin.on('data', (piece: Buffer) => {
  for (const frame of frames.push(piece)) last = last.then(() => work(frame));
});
process.stdin.on('close', die);
process.stdin.on('error', die);
process.stdout.on('error', die);
send({ head: READY, body: '' });
