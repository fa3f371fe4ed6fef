/**
 * Names of what a workspace's tail is kept under. Both keys carry its hash tag, so they share a slot of a cluster and
 * one script may move them together.
 */
export class TailKeys {
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** Hash: era, number of the newest event, sizes, and for each partition the mark up to which it was taken. */
  state(workspaceId: string): string {
    return `${this.#tag(workspaceId)}state`;
  }

  /** Stream of blocks of events. */
  blocks(workspaceId: string): string {
    return `${this.#tag(workspaceId)}blocks`;
  }

  /** Where it is told that the tail changed. */
  channel(workspaceId: string): string {
    return `${this.#prefix}l:${workspaceId}`;
  }

  workspaceOf(channel: string): string {
    return channel.slice(this.#prefix.length + 2);
  }

  #tag(workspaceId: string): string {
    return `{${this.#prefix}l:${workspaceId}}`;
  }
}
