import { parentPort, workerData } from 'node:worker_threads';
import { messageOf } from '@tributary/core';
import { openDatabase } from '../../sqlite/database.ts';
import type { WorkerOptions, WorkerReply, WorkerRequest } from './protocol.ts';
import { SegmentWriter } from './segment-writer.ts';

/** The thread in which one family's commits wait for the disk. One group at a time, in the order they come. */
const port = parentPort;
if (!port) throw new Error('append-worker.ts runs as a worker thread');

const { folder, segmentBytes, segmentAgeMs, busyTimeoutMs, addedCommitMs }: WorkerOptions = workerData;

const reply = (message: WorkerReply) => port.postMessage(message);

const writer = new SegmentWriter({
  folder,
  segmentBytes,
  segmentAgeMs,
  open: (file) => openDatabase(file, { busyTimeoutMs }),
  onTrouble: (error) => reply({ kind: 'trouble', error: messageOf(error) }),
});

port.on('message', (request: WorkerRequest) => {
  if (request.kind === 'close') {
    writer.close();
    port.close();
    return;
  }
  const { id, group } = request;
  try {
    const answer = writer.write(group);
    if (addedCommitMs > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, addedCommitMs);
    reply({ kind: 'written', id, answer });
  } catch (error) {
    reply({ kind: 'failed', id, error: messageOf(error) });
  }
});
