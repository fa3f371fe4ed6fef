import { Overloaded } from '@tributary/core';

export interface QueueBounds {
  /** Tasks waiting of one workspace, and of all. */
  readonly waitingEach: number;
  readonly waiting: number;
}

/** Tasks by workspace: one of a workspace at a time, in their order; workspaces take turns. */
export class TaskQueue<Task extends object> {
  readonly #bounds: QueueBounds;
  /** In the order in which workspaces are next. */
  readonly #waiting = new Map<string, Task[]>();
  readonly #running = new Set<string>();
  #count = 0;

  constructor(bounds: QueueBounds) {
    this.#bounds = bounds;
  }

  /** Throws `Overloaded` where too many wait. */
  push(workspaceId: string, task: Task): void {
    const own = this.#waiting.get(workspaceId) ?? [];
    if (own.length >= this.#bounds.waitingEach || this.#count >= this.#bounds.waiting)
      throw new Overloaded('too many tasks on contracts are waiting');
    own.push(task);
    this.#count += 1;
    this.#waiting.set(workspaceId, own);
  }

  /** The next task of a workspace that has none running, which it then has until `done`. */
  next(): { readonly workspaceId: string; readonly task: Task } | undefined {
    for (const [workspaceId, own] of this.#waiting) {
      if (this.#running.has(workspaceId)) continue;
      const task = own.shift();
      this.#waiting.delete(workspaceId);
      if (own.length > 0) this.#waiting.set(workspaceId, own);
      if (task === undefined) continue;
      this.#count -= 1;
      this.#running.add(workspaceId);
      return { workspaceId, task };
    }
    return undefined;
  }

  done(workspaceId: string): void {
    this.#running.delete(workspaceId);
  }

  /** Removes a task that waits; false when it does not wait any more. */
  remove(workspaceId: string, task: Task): boolean {
    const own = this.#waiting.get(workspaceId) ?? [];
    const at = own.indexOf(task);
    if (at < 0) return false;
    own.splice(at, 1);
    this.#count -= 1;
    if (own.length === 0) this.#waiting.delete(workspaceId);
    return true;
  }

  /** Removes and gives all that wait. */
  clear(): readonly Task[] {
    const all = [...this.#waiting.values()].flat();
    this.#waiting.clear();
    this.#count = 0;
    return all;
  }
}
