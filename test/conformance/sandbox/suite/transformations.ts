import {
  type Metrics,
  NO_METRICS,
  type SandboxInput,
  type SandboxProgram,
  type SandboxResult,
} from '@tributary/core';

export const CONTEXT = JSON.stringify({ environment: 'production' });

/** The current time for every input, epoch ms. */
export const AT = Date.UTC(2026, 1, 3, 4, 5, 6, 789);

/** An input with its number in `properties.n`, and with the request to misbehave in `properties.bad`. */
export function input(n: number, bad = false): SandboxInput {
  const event = { type: 'track', event: 'Ordered', user_id: `u${n}`, properties: { n, bad } };
  return { event: JSON.stringify(event), context: CONTEXT, at: AT, seed: `seed ${n}` };
}

export function inputs(count: number, badOnes: readonly number[] = []): readonly SandboxInput[] {
  return Array.from({ length: count }, (_, n) => input(n, badOnes.includes(n)));
}

/** The first output of a result, parsed; undefined when it has none. */
export function output(result: SandboxResult | undefined): Record<string, unknown> | undefined {
  if (result?.ok !== true || result.outputs[0] === undefined) return undefined;
  return JSON.parse(result.outputs[0]) as Record<string, unknown>;
}

/** `ok`, or the kind of error, of each result. */
export function outcomes(results: readonly SandboxResult[]): readonly string[] {
  return results.map((result) => (result.ok ? 'ok' : result.kind));
}

export function messageIn(result: SandboxResult | undefined): string {
  return result === undefined || result.ok ? '' : result.message;
}

let programs = 0;

/** A program with a new id. */
export function program(source: string, owner?: string): SandboxProgram {
  programs += 1;
  return { id: `program-${programs}:1`, source, owner: owner ?? `owner-${programs}` };
}

/** A program that returns its events, and runs `statements` first for a bad one. */
export function badOn(statements: string, owner?: string): SandboxProgram {
  const source = `function transform(event) { if (event.properties.bad) { ${statements} }\n return event; }`;
  return program(source, owner);
}

export const HONEST = 'function transform(event) { return { ...event, honest: true }; }';

/**
 * Native code that takes no interrupt for minutes and allocates nothing. A join over holes may end as a lost isolate
 * instead, which is an end for lack of memory.
 */
export const SEARCH = 'Array.prototype.lastIndexOf.call({ length: 2 ** 31 - 2 }, 1);';

/** Metrics that sum counters by name and labels. */
export function counting(counts: Map<string, number>): Metrics {
  return {
    ...NO_METRICS,
    count(name, labels, by = 1) {
      const key = [name, ...Object.values(labels ?? {})].join(' ');
      counts.set(key, (counts.get(key) ?? 0) + by);
    },
  };
}
