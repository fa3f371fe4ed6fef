import { setTimeout } from 'node:timers/promises';
import { type EventLog, type LogEntry, Overloaded, Unavailable } from '@tributary/core';
import { SOURCE } from '../../suite/harness.ts';

/** Callers that each append the next number once the one before was confirmed or refused. */
export interface Feed {
  /** Confirmed values, by key, in order. */
  readonly sent: ReadonlyMap<string, readonly string[]>;
  confirmed(): number;
  unavailable(): number;
  /** Other errors thrown meanwhile: there should be none. */
  others(): readonly unknown[];
  slowestMs(): number;
  stop(): Promise<void>;
}

export function startFeed(log: EventLog, callers: number, pauseMs = 5): Feed {
  const sent = new Map<string, string[]>();
  const others: unknown[] = [];
  let [confirmed, unavailable, slowestMs] = [0, 0, 0];
  let stopping = false;
  const call = async (key: string) => {
    const mine: string[] = [];
    sent.set(key, mine);
    for (let n = 0; !stopping; n++) {
      const startedAt = performance.now();
      try {
        await log.append(SOURCE, [{ key, value: String(n), headers: {} }]);
        mine.push(String(n));
        confirmed++;
      } catch (thrown) {
        if (thrown instanceof Unavailable || thrown instanceof Overloaded) unavailable++;
        else others.push(thrown);
      }
      slowestMs = Math.max(slowestMs, performance.now() - startedAt);
      await setTimeout(pauseMs);
    }
  };
  const calls = Array.from({ length: callers }, (_, i) => call(`caller${i}`));
  return {
    sent,
    confirmed: () => confirmed,
    unavailable: () => unavailable,
    others: () => others,
    slowestMs: () => slowestMs,
    async stop() {
      stopping = true;
      await Promise.all(calls);
    },
  };
}

/** Values by key, in order. */
export function byKey(entries: readonly LogEntry[]): ReadonlyMap<string, readonly string[]> {
  const values = new Map<string, string[]>();
  for (const { key, value } of entries) {
    const ofKey = values.get(key);
    if (ofKey) ofKey.push(value);
    else values.set(key, [value]);
  }
  return values;
}

/** The first value that is missing among the others, after the values before it; undefined when none is. */
export function firstMissing(values: readonly string[], among: readonly string[] = []): string | undefined {
  let at = 0;
  return values.find((value) => {
    at = among.indexOf(value, at) + 1;
    return at === 0;
  });
}
