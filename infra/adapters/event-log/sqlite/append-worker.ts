import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { messageOf } from '@tributary/core';
import { openDatabase } from '../../sqlite/database.ts';
import type { WorkerOptions, WorkerReply, WorkerRequest, WriteRequest } from './protocol.ts';
import { SegmentWriter } from './segment-writer.ts';

/** The thread in which one family's commits wait for the disk. One transaction at a time, in the order they come. */
if (!parentPort) throw new Error('append-worker.ts runs as a worker thread');
const port: MessagePort = parentPort;

const { folder, segmentBytes, segmentAgeMs, busyTimeoutMs }: WorkerOptions = workerData;

const reply = (message: WorkerReply) => port.postMessage(message);

const writer = new SegmentWriter({
  folder,
  segmentBytes,
  segmentAgeMs,
  busyTimeoutMs,
  open: (file) => openDatabase(file, { create: false, busyTimeoutMs }),
  onTrouble: (error) => reply({ kind: 'trouble', error: messageOf(error) }),
});

port.on('message', (first: WorkerRequest) => {
  const requests = [first, ...queued()];
  const writes = requests.filter((request) => request.kind === 'write');
  if (writes.length > 0) write(writes);
  if (writes.length === requests.length) return;
  writer.close();
  port.close();
});

/** What else has come: groups that waited together share one transaction, however many the sender cut them into. */
function* queued(): Generator<WorkerRequest> {
  for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
    yield next.message;
  }
}

function write(requests: readonly WriteRequest[]): void {
  try {
    const answers = writer.write(requests.map(({ group }) => group));
    answers.forEach((answer, i) => {
      reply({ kind: 'written', id: requests[i]?.id ?? 0, answer });
    });
  } catch (error) {
    for (const { id } of requests) reply({ kind: 'failed', id, error: messageOf(error) });
  }
  writer.checkpoint();
}
