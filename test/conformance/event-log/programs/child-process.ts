import { Child } from '../../../helpers/child.ts';
import type { EventLogHarness, Medium } from '../suite/harness.ts';
import { eventually } from '../suite/log-contents.ts';

/** The task of `child.ts`. */
export type ChildTask =
  | { readonly mode: 'append'; readonly run: number; readonly callers: number }
  | { readonly mode: 'stages' };

/** Its output: one JSON text a line. */
export interface ChildLine {
  readonly ready?: boolean;
  readonly acknowledged?: { readonly topic: string; readonly caller: string; readonly n: number };
  readonly ended?: string;
}

const running = new Set<LogChild>();

/** A process that opens the same medium. */
export class LogChild extends Child {
  constructor(program: string, harness: EventLogHarness, medium: Medium, task?: ChildTask) {
    const args = [harness.module, JSON.stringify(medium), JSON.stringify(task ?? {})];
    super(new URL(program, import.meta.url), args);
    running.add(this);
  }

  override get lines(): readonly ChildLine[] {
    return super.lines as readonly ChildLine[];
  }

  /** Waits until the lines fulfil the check. */
  saw(check: () => boolean): Promise<void> {
    return eventually(check, `child said only ${this.lines.length} lines`, 30_000);
  }

  /** SIGTERM makes it leave cleanly. */
  async leave(): Promise<void> {
    this.signal('SIGTERM');
    await this.ended();
  }
}

export function startChild(harness: EventLogHarness, medium: Medium, task: ChildTask): LogChild {
  return new LogChild('./child.ts', harness, medium, task);
}

/** Cleans up after a test that failed half-way. */
export async function killChildren(): Promise<void> {
  await Promise.all([...running].map((child) => child.kill()));
  running.clear();
}
