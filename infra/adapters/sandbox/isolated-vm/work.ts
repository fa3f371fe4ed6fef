import type { SandboxProgram } from '@tributary/core';
import type { Report, Task } from './messages.ts';
import type { Chunk } from './verdict.ts';

/** What a lane sends to its worker for a chunk. */
export interface Errand {
  readonly chunk: Chunk;
  readonly task: Omit<Task, 'program' | 'owner' | 'source'>;
  readonly texts: string;
}

/** Something a lane works on in turns with others: a call of `run` or `check`. */
export interface Work {
  readonly program: SandboxProgram;
  /** The next errand; undefined when all are under way or done. */
  next(): Errand | undefined;
  /** `body` holds the outputs the report's lengths speak of. */
  reported(errand: Errand, report: Report, body: string): void;
  /** The worker was killed, or died, over this errand. */
  killed(errand: Errand, kind: 'timeout' | 'memory'): void;
  /** The errand was not begun: its worker died over another. */
  putBack(errand: Errand): void;
  /** No worker can do it. */
  reject(error: Error): void;
}
