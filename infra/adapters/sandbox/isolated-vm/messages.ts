import type { SandboxLogLevel } from '@tributary/core';
import type { Frame } from './frames.ts';

/** What a worker is asked to do: to run a program over events, or to say whether it loads. */
export interface Task {
  readonly op: 'run' | 'check';
  readonly program: string;
  /** Whose programs share an isolate. */
  readonly owner: string;
  /** Absent when the worker is thought to have it. */
  readonly source?: string;
  readonly events: number;
  /** JSON: four numbers an event: characters of its text and of its context in the body, its clock, its seed. */
  readonly sizes: string;
  /** In an isolate of its own, that ran nothing before; with the source. */
  readonly alone: boolean;
  readonly captureLogs: boolean;
}

/**
 * How a worker stopped working on a task.
 * `ended`: the events it has answered for are done; fewer than asked for when others should have their turn.
 * `timeout`: the event behind those answered for ran longer than its budget.
 * `hung`: an event left work behind that does not end; none of the answers counts.
 * `memory`: the isolate took too much; none of the answers counts.
 * `missing`: the program is not known here; send the task again with its source.
 * `unloadable`: the program did not load, `fault` says why.
 */
export type Stop = 'ended' | 'timeout' | 'hung' | 'memory' | 'missing' | 'unloadable';

export interface LoadFault {
  readonly kind: 'compile' | 'timeout' | 'memory';
  readonly message: string;
  /** In the source, from 1; absent where it is not known. */
  readonly line?: number;
  readonly column?: number;
}

/** A line that was logged. */
export type LogLine = readonly [level: SandboxLogLevel, text: string];

/** A failure: its message and its place in the source, 0 where that is not known. */
export type Failure = readonly [message: string, line: number, column: number];

/**
 * One event's answer: `[0, ms, lengths of its outputs, logs?]` or `[kind, ms, failure, logs?]`, in whole milliseconds.
 * The outputs follow one another in the body.
 */
export type Entry =
  | readonly [kind: 0, ms: number, sizes: readonly number[], logs?: readonly LogLine[]]
  | readonly [kind: 'threw' | 'output', ms: number, failure: Failure, logs?: readonly LogLine[]];

export interface Report {
  readonly stop: Stop;
  /** Wall and CPU time the task took in its isolate, ms. */
  readonly wallMs: number;
  readonly cpuMs: number;
  /** How long it took to load the program before, ms; 0 when it was loaded. */
  readonly loadMs: number;
  readonly fault?: LoadFault;
  readonly entries: readonly Entry[];
}

/** The first message of a worker. */
export const READY = 'ready';

export function taskFrame(task: Task, texts: string): Frame {
  return { head: JSON.stringify(task), body: texts };
}

/** `answers` is what the bootstrap wrote: the entries as JSON, a line feed, the outputs. */
export function reportFrame(report: Omit<Report, 'entries'>, answers = '[]\n'): Frame {
  const end = answers.indexOf('\n');
  const rest = JSON.stringify(report).slice(0, -1);
  return { head: `${rest},"entries":${answers.slice(0, end)}}`, body: answers.slice(end + 1) };
}

export function parseTask(head: string): Task {
  return JSON.parse(head) as Task;
}
