import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { messageOf } from '@tributary/core/primitives';
import { openDatabase } from '../../sqlite/database.ts';
import type { ThreadReply, ThreadRequest } from '../../sqlite/store-thread.ts';
import { SegmentWriter, type WriteBatch, type WriteBatchResult } from './segment-writer.ts';

export interface WorkerOptions {
  readonly folder: string;
  readonly segmentBytes: number;
  readonly segmentAgeMs: number;
  readonly busyTimeoutMs: number;
}

type Request = ThreadRequest<WriteBatch>;
type WriteRequest = Extract<Request, { kind: 'request' }>;

/** The thread in which the commits of one topic group wait for the disk: one transaction at a time, in order. */
if (!parentPort) throw new Error('append-worker.ts runs as a worker thread');
const port: MessagePort = parentPort;

const { folder, segmentBytes, segmentAgeMs, busyTimeoutMs }: WorkerOptions = workerData;

const reply = (message: ThreadReply<WriteBatchResult>) => port.postMessage(message);

const writer = new SegmentWriter({
  folder,
  segmentBytes,
  segmentAgeMs,
  open: (file) => openDatabase(file, { create: false, busyTimeoutMs }),
  onRollFailed: (error) => reply({ kind: 'noted', error: messageOf(error) }),
});

port.on('message', (first: Request) => {
  const requests = [first, ...queued()];
  const writes = requests.filter((request) => request.kind === 'request');
  if (writes.length > 0) write(writes);
  if (writes.length === requests.length) return;
  writer.close();
  port.close();
});

/** The other messages in the port's queue: all batches that are queued at the same time share one transaction. */
function* queued(): Generator<Request> {
  for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
    yield next.message;
  }
}

function write(requests: readonly WriteRequest[]): void {
  try {
    const results = writer.write(requests.map(({ request }) => request));
    results.forEach((result, i) => {
      reply({ kind: 'done', id: requests[i]?.id ?? 0, result });
    });
  } catch (error) {
    for (const { id } of requests) reply({ kind: 'failed', id, error: messageOf(error) });
  }
  writer.checkpoint();
}
