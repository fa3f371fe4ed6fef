import type { OutputLimits } from '../limits.ts';

/**
 * Long texts cross the border inside an array, which copies them: on their own they would stay outside the heap, unseen
 * by the garbage collector that should free them.
 */
export type Batch = readonly [sizes: string, texts: string];
/** Entries as JSON, a line feed, the outputs. */
export type Answers = readonly [text: string];

/** What a worker calls inside an isolate. */
export interface Inside {
  /** Names the function that the user's source left behind; true when it is one. */
  adopt(transform: unknown): boolean;
  /**
   * Runs events. Returns its answers, or nothing when an event still waits for a promise: then ask `answers` once the
   * microtasks are drained.
   */
  run(batch: Batch, keepLogs: boolean): Answers | undefined;
  /** The answers so far. `settle`: the event under way fails. */
  answers(settle: boolean): Answers;
}

/** The start of an entry and the rest of it, both JSON, and the outputs. */
type Answer = { readonly kind: string; readonly payload: string; readonly outputs: string };

/**
 * Runs inside every isolate before the user's source does; its text is taken with `toString`, so it must use nothing
 * from outside. Everything it needs later it takes now: user code may replace `JSON`, `Promise` and every prototype,
 * and must neither change an answer of another event nor reach what is in here. Hence: strict mode (no `caller`, no
 * `getFunction` in a stack trace), captured functions only, no iterator, no spread, no destructuring of arrays, no
 * regular expression, and native `await`, which never asks a patched `then` of a native promise.
 */
export function bootstrap(limits: OutputLimits, fileName: string): Inside {
  const { parse, stringify } = JSON;
  const { isArray } = Array;
  const { defineProperty } = Object;
  const { now } = Date;
  const text = String;
  const { call } = Function.prototype;
  const substring = call.bind(String.prototype.substring) as (s: string, from: number, to: number) => string;
  const charCodeAt = call.bind(String.prototype.charCodeAt) as (s: string, at: number) => number;
  const indexOf = call.bind(String.prototype.indexOf) as (s: string, what: string, from: number) => number;

  const BRACE = 123;

  let transform: ((event: unknown, context: unknown) => unknown) | undefined;
  /** One assignment takes an answer in, so that a run that is cut short leaves whole answers only. */
  let answered = { entries: '', body: '', count: 0 };
  /** A continuation of an earlier run finds another number here and stops. */
  let generation = 0;
  let waiting = false;
  let began = 0;
  let keepLogs = false;
  let logs = { lines: '', count: 0 };

  function exceeds(json: string): boolean {
    if (json.length * 3 <= limits.maxEventBytes) return false;
    let bytes = json.length;
    for (let i = 0; i < json.length && bytes <= limits.maxEventBytes; i++) {
      const code = charCodeAt(json, i);
      // A pair of surrogates is 4 bytes in 2 units.
      if (code > 0x7f) bytes += code > 0x7ff && (code < 0xd800 || code > 0xdfff) ? 2 : 1;
    }
    return bytes > limits.maxEventBytes;
  }

  function lineOf(thrown: { readonly stack?: unknown }): string {
    const { stack } = thrown;
    if (typeof stack !== 'string') return '';
    const at = indexOf(stack, `${fileName}:`, 0);
    if (at < 0) return '';
    const from = at + fileName.length + 1;
    let to = from;
    while (to < from + 7 && charCodeAt(stack, to) >= 48 && charCodeAt(stack, to) <= 57) to++;
    return to === from ? '' : ` (line ${substring(stack, from, to)})`;
  }

  /** The message of what user code threw, whatever its getters do. */
  function describe(thrown: unknown): string {
    let message = 'something was thrown that cannot be read';
    try {
      if ((typeof thrown !== 'object' || thrown === null) && typeof thrown !== 'function') {
        return substring(text(thrown), 0, limits.maxMessageChars);
      }
      const error = thrown as {
        readonly name?: unknown;
        readonly message?: unknown;
        readonly stack?: unknown;
      };
      const said = error.message;
      message = 'something was thrown that is not an error';
      if (typeof said === 'string') {
        const name = error.name;
        const cut = substring(said, 0, limits.maxMessageChars);
        message = typeof name === 'string' && name !== '' ? `${substring(name, 0, 100)}: ${cut}` : cut;
        message = substring(message, 0, limits.maxMessageChars);
      }
      return message + lineOf(error);
    } catch {
      return message;
    }
  }

  function shown(value: unknown): string {
    if (typeof value === 'string') return value;
    try {
      const json = stringify(value) as string | undefined;
      if (json !== undefined && json !== '{}') return json;
      const said = (value as { readonly message?: unknown } | undefined)?.message;
      return typeof said === 'string' ? describe(value) : (json ?? text(value));
    } catch {
      return '[unreadable]';
    }
  }

  function log(...values: unknown[]): void {
    if (!keepLogs || logs.count >= limits.maxLogLines) return;
    let line = '';
    for (let i = 0; i < values.length && line.length < limits.maxLogChars; i++) {
      line += (i === 0 ? '' : ' ') + substring(shown(values[i]), 0, limits.maxLogChars);
    }
    // User code ran in `shown` and may have logged: only now is the count read.
    if (logs.count >= limits.maxLogLines) return;
    const json = stringify(substring(line, 0, limits.maxLogChars));
    logs = { lines: logs.count === 0 ? json : `${logs.lines},${json}`, count: logs.count + 1 };
  }

  function take({ kind, payload, outputs }: Answer): void {
    const ended = now();
    const kept = keepLogs ? `,[${logs.lines}]` : '';
    const entry = `[${kind},${ended - began},${payload}${kept}]`;
    const { entries, body, count } = answered;
    answered = {
      entries: count === 0 ? entry : `${entries},${entry}`,
      body: body + outputs,
      count: count + 1,
    };
    began = ended;
    logs = { lines: '', count: 0 };
  }

  function threw(message: string): Answer {
    return { kind: '"threw"', payload: stringify(message), outputs: '' };
  }

  function wrong(message: string): Answer {
    return { kind: '"output"', payload: stringify(message), outputs: '' };
  }

  function dropped(): Answer {
    return { kind: '0', payload: '[]', outputs: '' };
  }

  /** The JSON text of one output, or what is wrong with it. */
  function outputOf(value: unknown): string | Answer {
    if (typeof value !== 'object' || value === null || isArray(value)) {
      return wrong(`transform returned ${nameOf(value)} where an event was expected`);
    }
    let json: string | undefined;
    try {
      json = stringify(value) as string | undefined;
    } catch (thrown) {
      return wrong(`the output cannot be written as JSON: ${firstLine(describe(thrown))}`);
    }
    if (json === undefined) return wrong('the output cannot be written as JSON');
    if (exceeds(json)) return wrong(`the output exceeds ${limits.maxEventBytes} bytes`);
    // What was written counts: `toJSON`, getters and proxies may have told another story before.
    if (charCodeAt(json, 0) !== BRACE) return wrong('the output is not an object once written as JSON');
    return json;
  }

  function nameOf(value: unknown): string {
    if (value === null) return 'null';
    if (isArray(value)) return 'an array';
    return typeof value === 'undefined' ? 'undefined' : `a ${typeof value}`;
  }

  function firstLine(message: string): string {
    const end = indexOf(message, '\n', 0);
    return end < 0 ? message : substring(message, 0, end);
  }

  /** What `transform` returned, as an answer. */
  function answerOf(value: unknown): Answer {
    if (value === null) return dropped();
    if (typeof value !== 'object') {
      return wrong(
        `transform returned ${nameOf(value)}: return the event, an array of events, or null to drop it`,
      );
    }
    if (isArray(value)) return answerOfSeveral(value);
    const json = outputOf(value);
    return typeof json === 'string' ? { kind: '0', payload: `[${json.length}]`, outputs: json } : json;
  }

  function answerOfSeveral(values: readonly unknown[]): Answer {
    // A proxy may say anything here, and something else the next time.
    const length: unknown = values.length;
    if (typeof length !== 'number' || !(length <= limits.maxOutputs)) {
      return wrong(`transform returned more than ${limits.maxOutputs} outputs`);
    }
    let sizes = '';
    let outputs = '';
    for (let i = 0; i < length; i++) {
      const json = outputOf(values[i]);
      if (typeof json !== 'string') return json;
      sizes += (i === 0 ? '' : ',') + json.length;
      outputs += json;
    }
    return { kind: '0', payload: `[${sizes}]`, outputs };
  }

  function conclude(value: unknown): void {
    let answer: Answer;
    try {
      answer = answerOf(value);
    } catch (thrown) {
      answer = wrong(`the output cannot be read: ${firstLine(describe(thrown))}`);
    }
    take(answer);
  }

  async function drive(sizes: readonly number[], texts: string): Promise<void> {
    const mine = generation;
    const start = now();
    began = start;
    let at = 0;
    for (let i = 0; i + 1 < sizes.length; i += 2) {
      const size = answered.body.length + answered.entries.length;
      if (i > 0 && (began - start >= limits.sliceMs || size >= limits.sliceChars)) break;
      const middle = at + (sizes[i] ?? 0);
      const end = middle + (sizes[i + 1] ?? 0);
      let value: unknown;
      try {
        const event: unknown = parse(substring(texts, at, middle));
        value = transform?.(event, parse(substring(texts, middle, end)));
        if (isThenable(value)) {
          waiting = true;
          value = await value;
          if (mine !== generation) return;
          waiting = false;
        }
      } catch (thrown) {
        if (mine !== generation) return;
        waiting = false;
        take(threw(describe(thrown)));
        at = end;
        continue;
      }
      conclude(value);
      at = end;
    }
  }

  function isThenable(value: unknown): boolean {
    return (
      ((typeof value === 'object' && value !== null) || typeof value === 'function') &&
      typeof (value as { then?: unknown }).then === 'function'
    );
  }

  function answers(settle: boolean): Answers {
    if (settle && waiting) {
      generation += 1;
      waiting = false;
      take(threw('promise never settled'));
    }
    return [`[${answered.entries}]\n${answered.body}`];
  }

  // Shared memory would let code wait without burning CPU, and WebAssembly's memory escapes the isolate's limit.
  const globals = globalThis as Record<string, unknown>;
  delete globals.SharedArrayBuffer;
  delete globals.Atomics;
  delete globals.WebAssembly;
  const methods = { log, info: log, warn: log, error: log, debug: log };
  defineProperty(globals, 'console', { value: methods, writable: true, configurable: true });

  return {
    adopt(found) {
      if (typeof found !== 'function') return false;
      transform = found as typeof transform;
      return true;
    },
    run(batch, keep) {
      generation += 1;
      waiting = false;
      keepLogs = keep;
      logs = { lines: '', count: 0 };
      answered = { entries: '', body: '', count: 0 };
      void drive(parse(batch[0]) as number[], batch[1]);
      return waiting ? undefined : answers(false);
    },
    answers,
  };
}
