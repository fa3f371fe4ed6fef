import { connect, type Socket } from 'node:net';
import { tell } from '../../helpers/child.ts';

/** The task of `stream-readers.ts` as a process: the streams to open and read. */
export interface StreamReadersTask {
  readonly url: string;
  readonly idToken: string;
  readonly workspaceId: string;
  /** Streams that are read, with their bytes discarded. */
  readonly read: number;
  /** Streams that are opened and never read. */
  readonly unread: number;
}

/** Resolves once the stream has begun. */
function open({ url, idToken, workspaceId }: StreamReadersTask, isRead: boolean): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const lines = [
    `GET /api/v1/workspaces/${workspaceId}/events/live HTTP/1.1`,
    `host: ${hostname}:${port}`,
    `authorization: Bearer ${idToken}`,
    `x-workspace-id: ${workspaceId}`,
  ];
  socket.write(`${lines.join('\r\n')}\r\n\r\n`);
  return new Promise((resolve, reject) => {
    socket.once('error', reject);
    socket.once('data', (chunk: Buffer) => {
      const answer = chunk.toString('latin1');
      if (!answer.startsWith('HTTP/1.1 200')) reject(new Error(answer));
      if (isRead) socket.resume();
      else socket.pause();
      resolve(socket);
    });
  });
}

// The script of a child: opens its streams, reports that, and reads until it is killed.
if (process.argv[2] !== undefined) {
  const task = JSON.parse(process.argv[2]) as StreamReadersTask;
  const streams = await Promise.all([
    ...Array.from({ length: task.read }, () => open(task, true)),
    ...Array.from({ length: task.unread }, () => open(task, false)),
  ]);
  tell({ open: streams.length });
}
