import type { OutputLimits } from '../limits.ts';
import type { Adopted, Answers, Failure, Inside } from '../protocol.ts';
import type { FixedWorld, OwnGlobals } from './fixed-world.ts';
import type { peerForms } from './peer-forms.ts';

/** The kind and payload of an entry, both JSON, and the outputs. */
type Answer = { readonly kind: string; readonly payload: string; readonly outputs: string };

/**
 * Runs inside every isolate before the user's source. Its source text is taken with `toString`, so it must not use anything
 * from outside. User code may replace `JSON`, `Promise` and every prototype, and must neither change an answer of another
 * event nor reach into this function. Therefore: everything needed later is captured at the start; strict mode (no
 * `caller`, no `getFunction` in a stack trace); no iterators, spread, array destructuring or regular expressions; and
 * native `await`, which never calls a patched `then` of a native promise.
 *
 * Each event runs by itself: the source is evaluated again, with the event's clock and seed, and frozen globals. Only
 * microtasks of an earlier event may still run, and they can affect a later event that awaits a promise in one way: by
 * drawing from its random numbers. So where numbers are drawn, such an event begins a run of its own, because the
 * microtasks are drained at the end of each run.
 */
export function bootstrap(
  limits: OutputLimits,
  fileName: string,
  world: FixedWorld,
  makeGlobals: () => OwnGlobals,
  adapt: ReturnType<typeof peerForms>,
): Inside {
  const { parse, stringify } = JSON;
  const { isArray } = Array;
  const { defineProperty, freeze, keys } = Object;
  const { now } = world;
  const { max } = Math;
  const text = String;
  const { call } = Function.prototype;
  const substring = call.bind(String.prototype.substring) as (s: string, from: number, to: number) => string;
  const charCodeAt = call.bind(String.prototype.charCodeAt) as (s: string, at: number) => number;
  const indexOf = call.bind(String.prototype.indexOf) as (s: string, what: string, from: number) => number;

  const functionText = call.bind(Function.prototype.toString) as (found: object) => string;

  const BRACE = 123;
  const LIST_ADVICE = '; transform gets one event: where it takes a list, name it transformBatch';

  /** Numbers for each event in the sizes: its characters, those of its context, its clock, its seed. */
  const PER_EVENT = 4;

  interface Source {
    readonly evaluate: (surroundings?: object, link?: OwnGlobals['link']) => unknown;
    readonly usesGlobal: boolean;
    /** Its parameter is called `events`: it was written for another system. */
    readonly takesList?: boolean;
  }
  /** By the number of the program. */
  const sources: (Source | undefined)[] = [];
  /** The last context, parsed and frozen: many events of a batch share it. */
  let context: { readonly text: string; readonly value: unknown } = { text: '', value: undefined };
  /** An answer is added with one assignment, so that a run that is cut short leaves complete answers only. */
  let answered = { entries: '', body: '', count: 0 };
  /** Number of the run. A continuation of an earlier run sees another number and stops. */
  let generation = 0;
  let waiting = false;
  let began = 0;
  let keepLogs = false;
  let logs = { lines: '', count: 0 };

  /** Bytes of a text in UTF-8; stops counting beyond `most`. */
  function bytesOf(json: string, most: number): number {
    let bytes = json.length;
    for (let i = 0; i < json.length && bytes <= most; i++) {
      const code = charCodeAt(json, i);
      // A pair of surrogates is 4 bytes in 2 units.
      if (code > 0x7f) bytes += code > 0x7ff && (code < 0xd800 || code > 0xdfff) ? 2 : 1;
    }
    return bytes;
  }

  /** The limit of an output in bytes, if it exceeds it; it may be somewhat larger than its event. */
  function exceededLimit(json: string, given: string): number | undefined {
    const usual = limits.maxEventBytes;
    if (json.length * 3 <= usual || bytesOf(json, usual) <= usual) return undefined;
    const ofGiven = bytesOf(given, given.length * 3) + limits.outputRoomBytes;
    const most = max(ofGiven, usual);
    return bytesOf(json, most) > most ? most : undefined;
  }

  function isDigit(code: number): boolean {
    return code >= 48 && code <= 57;
  }

  /** The number at `from` in a text; 0 if there is none. */
  function numberAt(digits: string, from: number): number {
    let value = 0;
    for (let at = from; at < from + 7 && isDigit(charCodeAt(digits, at)); at++)
      value = value * 10 + charCodeAt(digits, at) - 48;
    return value;
  }

  /** The location in the user's source where a stack begins. */
  function locationIn(stack: unknown): { line: number; column: number } {
    const at = typeof stack === 'string' ? indexOf(stack, `${fileName}:`, 0) : -1;
    if (typeof stack !== 'string' || at < 0) return { line: 0, column: 0 };
    const from = at + fileName.length + 1;
    const line = numberAt(stack, from);
    return { line, column: numberAt(stack, indexOf(stack, ':', from) + 1) };
  }

  /** The failure for a value that user code threw. Its getters may throw as well. */
  function failureOf(thrown: unknown): Failure {
    let message = 'something was thrown that cannot be read';
    try {
      if ((typeof thrown !== 'object' || thrown === null) && typeof thrown !== 'function') {
        return [substring(text(thrown), 0, limits.maxMessageChars), 0, 0];
      }
      const error = thrown as {
        readonly name?: unknown;
        readonly message?: unknown;
        readonly stack?: unknown;
      };
      const errorMessage = error.message;
      message = 'something was thrown that is not an error';
      if (typeof errorMessage === 'string') {
        const name = error.name;
        const cut = substring(errorMessage, 0, limits.maxMessageChars);
        message = typeof name === 'string' && name !== '' ? `${substring(name, 0, 100)}: ${cut}` : cut;
        message = substring(message, 0, limits.maxMessageChars);
      }
      const { line, column } = locationIn(error.stack);
      return [line === 0 ? message : `${message} (line ${line})`, line, column];
    } catch {
      return [message, 0, 0];
    }
  }

  function describe(thrown: unknown): string {
    return failureOf(thrown)[0];
  }

  function shown(value: unknown): string {
    if (typeof value === 'string') return value;
    try {
      const json = stringify(value) as string | undefined;
      if (json !== undefined && json !== '{}') return json;
      const errorMessage = (value as { readonly message?: unknown } | undefined)?.message;
      return typeof errorMessage === 'string' ? describe(value) : (json ?? text(value));
    } catch {
      return '[unreadable]';
    }
  }

  function log(level: string, values: readonly unknown[]): void {
    if (!keepLogs || logs.count >= limits.maxLogLines) return;
    let line = '';
    for (let i = 0; i < values.length && line.length < limits.maxLogChars; i++) {
      line += (i === 0 ? '' : ' ') + substring(shown(values[i]), 0, limits.maxLogChars);
    }
    // User code ran in `shown` and may have logged, so the count is read again.
    if (logs.count >= limits.maxLogLines) return;
    const json = `["${level}",${stringify(substring(line, 0, limits.maxLogChars))}]`;
    logs = { lines: logs.count === 0 ? json : `${logs.lines},${json}`, count: logs.count + 1 };
  }

  function addAnswer({ kind, payload, outputs }: Answer): void {
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

  function failed(kind: 'threw' | 'output', [message, line, column]: Failure): Answer {
    return { kind: `"${kind}"`, payload: `[${stringify(message)},${line},${column}]`, outputs: '' };
  }

  function invalid(message: string): Answer {
    return failed('output', [message, 0, 0]);
  }

  function noOutput(): Answer {
    return { kind: '0', payload: '[]', outputs: '' };
  }

  /** The JSON of one output, or the failure. */
  function outputOf(value: unknown, given: string): string | Answer {
    if (typeof value !== 'object' || value === null || isArray(value)) {
      return invalid(`transform returned ${nameOf(value)} where an event was expected`);
    }
    let json: string | undefined;
    try {
      json = stringify(value) as string | undefined;
    } catch (thrown) {
      return invalid(`the output cannot be written as JSON: ${firstLine(describe(thrown))}`);
    }
    if (json === undefined) return invalid('the output cannot be written as JSON');
    const most = exceededLimit(json, given);
    if (most !== undefined) return invalid(`the output exceeds ${most} bytes`);
    // Only the JSON counts: `toJSON`, getters and proxies may have returned something else before.
    if (charCodeAt(json, 0) !== BRACE) return invalid('the output is not an object once written as JSON');
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

  /** The answer for the value that `transform` returned. `given`: the JSON of the event. */
  function answerOf(value: unknown, given: string): Answer {
    if (value === null) return noOutput();
    if (typeof value !== 'object') {
      return invalid(
        `transform returned ${nameOf(value)}: return the event, an array of events, or null to drop it`,
      );
    }
    if (isArray(value)) return answerOfSeveral(value, given);
    if (typeof (value as { readonly next?: unknown }).next === 'function')
      return invalid('transform returned an iterator: return an array of events');
    const json = outputOf(value, given);
    return typeof json === 'string' ? { kind: '0', payload: `[${json.length}]`, outputs: json } : json;
  }

  function answerOfSeveral(values: readonly unknown[], given: string): Answer {
    // Read once: a proxy may return another value the next time.
    const length: unknown = values.length;
    if (typeof length !== 'number' || !(length <= limits.maxOutputs)) {
      return invalid(`transform returned more than ${limits.maxOutputs} outputs`);
    }
    let sizes = '';
    let outputs = '';
    for (let i = 0; i < length; i++) {
      const json = outputOf(values[i], given);
      if (typeof json !== 'string') return json;
      sizes += (i === 0 ? '' : ',') + json.length;
      outputs += json;
    }
    return { kind: '0', payload: `[${sizes}]`, outputs };
  }

  function conclude(value: unknown, given: string): void {
    let answer: Answer;
    try {
      answer = answerOf(value, given);
    } catch (thrown) {
      answer = invalid(`the output cannot be read: ${firstLine(describe(thrown))}`);
    }
    addAnswer(answer);
  }

  /** The context of an event, deeply frozen. */
  function contextOf(json: string): unknown {
    if (json !== context.text) context = { text: json, value: frozen(parse(json)) };
    return context.value;
  }

  function frozen(value: unknown): unknown {
    if (typeof value !== 'object' || value === null) return value;
    const members = value as Record<string, unknown>;
    const names = keys(members);
    for (let i = 0; i < names.length; i++) frozen(members[names[i] ?? '']);
    return freeze(members);
  }

  async function drive(source: Source | undefined, sizes: readonly number[], texts: string): Promise<void> {
    const mine = generation;
    const start = now();
    began = start;
    world.forgetDraws();
    let at = 0;
    let awaited = false;
    for (let i = 0; i < sizes.length; i += PER_EVENT) {
      const size = answered.body.length + answered.entries.length;
      if (i > 0 && (began - start >= limits.sliceMs || size >= limits.sliceChars)) break;
      if (awaited && world.hasDrawn()) break;
      const middle = at + (sizes[i] ?? 0);
      const end = middle + (sizes[i + 1] ?? 0);
      world.begin(sizes[i + 2] ?? 0, sizes[i + 3] ?? 0);
      const given = substring(texts, at, middle);
      let value: unknown;
      try {
        const event: unknown = parse(given);
        value = transformOf(source)(event, contextOf(substring(texts, middle, end)));
        if (isThenable(value)) {
          // The event gets no answer and is sent again, as the first of a run.
          if (i > 0 && world.hasDrawn()) {
            void forget(value);
            break;
          }
          waiting = true;
          awaited = true;
          value = await value;
          if (mine !== generation) return;
          waiting = false;
          if (i > 0 && world.hasDrawn()) break;
        }
      } catch (thrown) {
        if (mine !== generation) return;
        if (waiting && i > 0 && world.hasDrawn()) {
          waiting = false;
          break;
        }
        waiting = false;
        const failure = failureOf(thrown);
        const advice = source?.takesList === true ? LIST_ADVICE : '';
        addAnswer(failed('threw', [failure[0] + advice, failure[1], failure[2]]));
        at = end;
        continue;
      }
      conclude(value, given);
      at = end;
    }
  }

  /** Handles the rejection of a promise that is dropped: an unhandled one fails the whole run. */
  async function forget(value: unknown): Promise<void> {
    try {
      await value;
    } catch {
      // The event fails when it is run again.
    }
  }

  /** Evaluates the source and returns its `transform`. `surroundings`: the global object that it sees. */
  function transformOf(
    source: Source | undefined,
    surroundings?: object,
  ): (event: unknown, context: unknown) => unknown {
    const { evaluate, usesGlobal = false } = source ?? {};
    const found = usesGlobal ? evaluate?.(surroundings ?? globals.make(), globals.link) : evaluate?.();
    if (typeof found === 'function') return found as (event: unknown, context: unknown) => unknown;
    const adapted = adapt((found ?? {}) as Parameters<typeof adapt>[0]);
    if (adapted === undefined) throw new TypeError('the source has no function transform(event, context)');
    return adapted;
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
      addAnswer(failed('threw', ['promise never settled', 0, 0]));
    }
    return [`[${answered.entries}]\n${answered.body}`];
  }

  const methods: Record<string, (...values: unknown[]) => void> = {
    log: (...values) => log('info', values),
    info: (...values) => log('info', values),
    warn: (...values) => log('warn', values),
    error: (...values) => log('error', values),
    debug: (...values) => log('debug', values),
  };
  defineProperty(globalThis, 'console', { value: methods, writable: true, configurable: true });
  world.freeze();

  const globals = makeGlobals();

  return {
    adopt(program, found, usesGlobal) {
      const surroundings = usesGlobal ? globals.make() : {};
      let fault: Failure | null = null;
      world.begin(0, 0);
      try {
        const source = { evaluate: found as Source['evaluate'], usesGlobal };
        const written = substring(functionText(transformOf(source, surroundings)), 0, 100);
        const takesList = indexOf(written, 'events', 0) === indexOf(written, '(', 0) + 1;
        sources[program] = { ...source, takesList };
      } catch (thrown) {
        fault = failureOf(thrown);
      }
      const adopted: Adopted = { fault, globals: keys(surroundings) };
      return stringify(adopted);
    },
    run(program, batch, keep) {
      generation += 1;
      waiting = false;
      keepLogs = keep;
      logs = { lines: '', count: 0 };
      answered = { entries: '', body: '', count: 0 };
      void drive(sources[program], parse(batch[0]) as number[], batch[1]);
      return waiting ? undefined : answers(false);
    },
    answers,
  };
}
