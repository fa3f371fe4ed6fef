import { setTimeout as sleep } from 'node:timers/promises';
import { type EventLog, type ReadOptions, Unavailable } from '@tributary/core';

interface Troubles {
  /** Every call fails with `Unavailable`. */
  failing: boolean;
  /** Reads answer only once this is false again, or fail when aborted. */
  silentReads: boolean;
  /** The number of facts lost at the end of the log. */
  lost: number;
}

/** A real log with injected engine failures: no answer, or a transient error. */
export function troubledLog(log: EventLog): EventLog & Troubles {
  const troubles: Troubles = { failing: false, silentReads: false, lost: 0 };
  const check = () => {
    if (troubles.failing) throw new Unavailable('troubled');
  };
  const over: Pick<EventLog, 'read' | 'end'> = {
    async read(topic, partition, from, options: ReadOptions = {}) {
      check();
      const result = await log.read(topic, partition, from, options);
      while (troubles.silentReads && !options.signal?.aborted) await sleep(5);
      check();
      return result;
    },
    async end(topic, partition) {
      check();
      return (await log.end(topic, partition)) - troubles.lost;
    },
  };
  return new Proxy(Object.assign(troubles, over) as EventLog & Troubles, {
    get(target, name) {
      if (Object.hasOwn(target, name)) return Reflect.get(target, name);
      const value: unknown = Reflect.get(log, name);
      if (typeof value !== 'function') return value;
      return async (...args: readonly unknown[]) => {
        check();
        return value.apply(log, args);
      };
    },
  });
}
