import { parentPort } from 'node:worker_threads';
import { PackProcess } from './process.ts';

// A thread of the specs, with a process of the pack: it tells its id, and dies of the first message.
process.stdout.write(`${new PackProcess().pid}\n`);
parentPort?.on('message', () => {
  throw new Error('another connector of this thread failed');
});
