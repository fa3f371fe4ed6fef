import type { MessagePort } from 'node:worker_threads';
import type { TailPart } from '../feed/source.ts';
import type { Tails } from './tails.ts';

/** What a thread that follows asks of the one that keeps the tails. */
export type ToTails =
  | { readonly type: 'watch'; readonly workspaceId: string }
  | { readonly type: 'unwatch'; readonly workspaceId: string }
  | {
      readonly type: 'read';
      readonly request: number;
      readonly workspaceId: string;
      readonly from: string | undefined;
    };

export type FromTails =
  | { readonly type: 'changed'; readonly workspaceId: string }
  | { readonly type: 'part'; readonly request: number; readonly part: TailPart };

/**
 * Answers a thread that follows. Only what it reads is copied to it, and a change is told once until it has read: so
 * however many events come and however busy it is, what is on its way to it is one tail a workspace at most.
 */
export function serveTails(tails: Tails, port: MessagePort): () => void {
  /** Watched workspaces; true where a change was told and not read yet. */
  const watched = new Map<string, boolean>();
  const send = (message: FromTails) => port.postMessage(message);
  const unlisten = tails.listen((workspaceId) => {
    if (watched.get(workspaceId) !== false) return;
    watched.set(workspaceId, true);
    send({ type: 'changed', workspaceId });
  });
  port.on('message', (message: ToTails) => {
    const { workspaceId } = message;
    if (message.type === 'watch') watched.set(workspaceId, false);
    else if (message.type === 'unwatch') watched.delete(workspaceId);
    else {
      if (watched.has(workspaceId)) watched.set(workspaceId, false);
      send({ type: 'part', request: message.request, part: tails.read(workspaceId, message.from) });
    }
  });
  return () => {
    unlisten();
    port.close();
  };
}
