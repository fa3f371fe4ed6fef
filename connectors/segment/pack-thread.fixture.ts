import { parentPort } from 'node:worker_threads';
import { PackProcess } from './pack-process.ts';

// A thread that owns a process of the pack: it prints the process id and fails at the first message.
process.stdout.write(`${new PackProcess().pid}\n`);
parentPort?.on('message', () => {
  throw new Error('another connector of this thread failed');
});
